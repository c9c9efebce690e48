"""JSON says one thing only, and a value is of the kind that its key asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.values import OWN, Count, Seed, Share, Within, check_kinds, check_there, fits, parse_json, spelt

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_json_is_read_as_python_reads_it(value: Any) -> None:
    try:
        text = json.dumps(value)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(ConfigError, match="is not JSON that can be used"):
            parse_json(text, "it")
        return
    assert parse_json(text, "it") == value == parse_json(text.encode(), "it")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("[NaN]", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("[" * 100_000, "recursion|nest"),
        ("9" * 5000, "digits"),
        (r'"\ud800"', "surrogates"),
        (b"\xff", "codec"),
        ("{", "Expecting"),
    ],
)
def test_json_that_cannot_be_used_says_why(text: str | bytes, why: str) -> None:
    with pytest.raises(StoreError, match=f"(?s)plan.json is not JSON that can be used: .*({why})"):
        parse_json(text, "plan.json", StoreError)


KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [0, -5, 2**63 - 1], [True, 1.0, "1", None, 2**63, [1]]),
    (float, [0.5, 3], [True, float("nan"), float("inf"), "0.5", None]),
    (str, ["", "a", "é😀"], [1, None, b"a", ["a"], "\ud800", "é\udcff"]),
    (bool, [True, False], [0, 1, "yes"]),
    (str | None, ["a", None], [0, False]),
    (Literal["a", 1], ["a", 1], ["b", True, 1.0]),
    (Sequence[str], [[], ["a"], ("a", "b")], ["abc", b"a", [1], {"a": 1}, None]),
    (tuple[int, str], [[1, "a"]], [[1], [1, "a", "b"], ["a", 1]]),
    (tuple[int, ...], [[], [1, 2]], [["a"]]),
    (Mapping[str, int], [{}, {"a": 1}], [{1: 1}, {"a": "b"}, []]),
    (Annotated[int, Within(1, 9)], [1, 9], [0, 10, 1.5, True]),
    (Annotated[int, OWN], ["anything"], []),
    (Share, [0, 1, 0.5], [-0.1, 1.1, True]),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), KINDS, ids=[str(kind) for kind, _, _ in KINDS])
def test_a_value_fits_its_kind(kind: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not fits(value, kind)] == []
    assert [value for value in wrong if fits(value, kind)] == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "a whole number"),
        (Share, "a number from 0 to 1"),
        (Count, "a whole number of 0 or more"),
        (Seed, "a whole number"),
        (str | None, "text or nothing"),
        (Literal["a", "b"], "'a' or 'b'"),
        (Sequence[int], "a list, each entry a whole number"),
        (Mapping[str, float], "a mapping of names to a number"),
    ],
)
def test_a_kind_is_spelt_in_a_users_words(kind: Any, words: str) -> None:
    assert spelt(kind) == words


def test_the_first_value_of_another_kind_is_named_with_what_it_should_be() -> None:
    check_kinds({"a": 1}, {"a": int, "b": str}, "the recipe")
    with pytest.raises(ConfigError, match="the recipe: b cannot be 1: it is text") as caught:
        check_kinds({"a": 1, "b": 1}, {"a": int, "b": str}, "the recipe")
    assert caught.value.arguments == ("b",)


def test_what_is_no_mapping_or_lacks_a_key_is_refused() -> None:
    check_there({"a": 1}, ["a"], "It")
    with pytest.raises(ConfigError, match="It lacks 'b'"):
        check_there({"a": 1}, ["a", "b"], "It")
    with pytest.raises(ConfigError, match="It must be a mapping, not list"):
        check_there([], ["a"], "It")
