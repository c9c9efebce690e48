"""Hashes that shape bytes and orders: a change of any of them moves every store and every run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.hashing import canonical_json, derive_key, fingerprint, hash64, mix64, mix64_array

WORDS = st.integers(0, 2**64 - 1)


def test_the_values_that_every_store_and_order_stands_on() -> None:
    assert hash64("") == 0x2D06800538D394C2
    assert mix64(0) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 from seed 0
    assert hash64("a") == hash64(b"a")
    assert fingerprint({}) == "44136fa355b3678a1146ad16f7e8649e"  # of SHA-256 of {}


@given(st.lists(WORDS, min_size=1))
def test_many_are_mixed_as_one_is(values: list[int]) -> None:
    assert mix64_array(np.array(values, np.uint64)).tolist() == [mix64(value) for value in values]


@given(WORDS, WORDS)
def test_no_two_numbers_are_mixed_to_one(a: int, b: int) -> None:
    assert (mix64(a) == mix64(b)) == (a == b)


def test_a_key_depends_on_every_part_and_their_order() -> None:
    paths: list[tuple[int | str, ...]] = [(), (0,), (0, 0), (0, "web"), ("web", 0), (0, "web", 1), (1, "web", 0)]
    assert len({derive_key(*path) for path in paths}) == len(paths)


@given(st.dictionaries(st.text(), st.integers() | st.text(), max_size=5))
def test_equal_values_have_one_text_whatever_the_order_of_their_keys(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical_json(value) == canonical_json(turned) and json.loads(canonical_json(value)) == value
    assert fingerprint(value) == fingerprint(turned)
