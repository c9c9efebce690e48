"""YAML says one thing only."""

from __future__ import annotations

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.yaml_values import parse_yaml


def test_a_recipe_is_read_as_yaml_reads_it() -> None:
    assert parse_yaml("a: [1, 2.5, yes]\nb: {c: ~}", "it") == {"a": [1, 2.5, True], "b": {"c": None}}


def test_what_is_named_once_may_be_used_twice() -> None:
    assert parse_yaml("a: &x [1]\nb: *x", "it") == {"a": [1], "b": [1]}


BOMB = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "the key 'a' is there twice"),
        ("a: {b: 1, b: 2}", "the key 'b' is there twice"),
        (BOMB, "unfolds to more than 1,000,000 values"),
        ("[" * 60 + "]" * 60, "50 one inside another"),
        ("a: &a [*a]", "one inside another|recursion"),
        (r'a: "\0"', "a character that no name or text can have"),
        (r'a: "\ud800"', "a character that no name or text can have"),
        ("a: 2024-02-31", "day is out of range"),
        ("a: " + "9" * 5000, "digits"),
        ("a: [", "expected the node content"),
        ("!!python/object:os.system {}", "could not determine a constructor"),
    ],
    ids=range(11),
)
def test_yaml_that_cannot_be_used_says_why_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"r.yaml is not YAML that can be used: .*({why})") as caught:
        parse_yaml(text, "r.yaml")
    assert "\n" not in str(caught.value)
