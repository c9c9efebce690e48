"""The easy spellings of arguments are made plain, and a wrong kind is a sentence that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.core import arguments
from gristmill.core.errors import ConfigError


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_a_whole_number_may_be_numpys(value: Any) -> None:
    found = arguments.as_whole("seq_len", value)
    assert found == 3 and type(found) is int


@pytest.mark.parametrize("value", [None, 0, -1, True, 1.0, "3", np.float64(3)])
def test_what_is_no_whole_number_above_0_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="seq_len must be a whole number above 0, not"):
        arguments.as_whole("seq_len", value)


def test_the_least_whole_number_is_the_callers() -> None:
    assert arguments.as_whole("rank", 0, least=0) == 0 and arguments.as_whole("seed", -5, least=None) == -5
    with pytest.raises(ConfigError, match="rank must be a whole number of 0 or more, not -1"):
        arguments.as_whole("rank", -1, least=0)
    with pytest.raises(ConfigError, match="of 7 or more"):
        arguments.as_whole("rank", 6, least=7)


def test_one_name_and_several_are_a_tuple() -> None:
    assert arguments.as_names("keys", "labels") == ("labels",)
    assert arguments.as_names("keys", ["labels", "doc_ids"]) == ("labels", "doc_ids")
    for value in (None, 3, ["a", 3], {"a": 1}):
        with pytest.raises(ConfigError, match="keys must be a name or a list of names"):
            arguments.as_names("keys", value)


def test_a_misspelt_choice_is_told_the_nearest() -> None:
    assert arguments.as_choice("cut", "pack", ["pack", "pad"]) == "pack"
    with pytest.raises(ConfigError, match=r"cut 'pakc' is not known \(did you mean 'pack'"):
        arguments.as_choice("cut", "pakc", ["pack", "pad"])
    with pytest.raises(ConfigError, match="cut must be 'pack' or 'pad', not 3"):
        arguments.as_choice("cut", 3, ["pack", "pad"])


def test_an_error_carries_the_argument_that_it_speaks_of() -> None:
    for refused in (
        lambda: arguments.as_flag("strict", "no"),
        lambda: arguments.as_text("strict", ""),
        lambda: arguments.as_mapping("strict", {1: 2}, "a dict"),
        lambda: arguments.as_kind("strict", 1, str, "a string"),
        lambda: arguments.as_function("strict", "print"),
    ):
        with pytest.raises(ConfigError) as caught:
            refused()
        assert caught.value.arguments == ("strict",)


def test_what_is_right_is_handed_on() -> None:
    assert arguments.as_flag("a", False) is False and arguments.as_text("a", "b") == "b"
    assert arguments.as_mapping("a", {"b": 1}, "a dict") == {"b": 1}
    assert arguments.as_kind("a", "b", str, "a string") == "b" and arguments.as_function("a", len) is len
