"""Options are frozen, survive JSON, and refuse what they do not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.options import as_options, check_fields, check_order, content, from_mapping
from gristmill.core.values import Share


@dataclass(frozen=True)
class Sieve:
    name: str
    share: Share = 0.5
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Easy:
    size: int = 1


def test_options_survive_json() -> None:
    sieve = Sieve("fine", 0.25, most=3)
    assert from_mapping(Sieve, json.loads(json.dumps(content(sieve))), "a sieve") == sieve


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"name": "a", "shares": 1}, "Unknown key 'shares' in a sieve (did you mean 'share'?)"),
        ({}, "A sieve lacks 'name'"),
        ({"name": 3}, "a sieve: name cannot be 3: it is text"),
        ({"name": "a", "share": 2}, "a sieve: share cannot be 2: it is a number from 0 to 1"),
        ([], "A sieve must be a mapping, not list"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(values: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Sieve, values, "a sieve")
    assert str(caught.value).startswith(why)


def test_options_made_by_hand_are_checked_too() -> None:
    check_fields(Sieve("a"), "a sieve")
    with pytest.raises(ConfigError, match="share cannot be 7"):
        check_fields(Sieve("a", share=7), "a sieve")


def test_a_least_above_its_most_is_refused() -> None:
    check_order(Sieve("a", least=1, most=1), "a sieve", ("least", "most"))
    check_order(Sieve("a", least=1), "a sieve", ("least", "most"))
    with pytest.raises(ConfigError, match=r"most \(1\) is below least \(2\): nothing would stay"):
        check_order(Sieve("a", least=2, most=1), "a sieve", ("least", "most"))


@pytest.mark.parametrize(("given", "size"), [(None, 1), ({}, 1), ({"size": 2}, 2), (Easy(3), 3)])
def test_an_argument_is_options_a_dict_or_nothing(given: Easy | Mapping[str, Any] | None, size: int) -> None:
    assert as_options(Easy, given) == Easy(size)


def test_an_argument_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="options must be Easy or a dict of its fields, not 3"):
        as_options(Easy, 3)
