"""Texts as flat arrays against lists of strings."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from gristmill.core.texts import Texts, byte_letters, differing, from_strings, runs

STRINGS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=6)


def test_byte_letters_are_those_of_the_library() -> None:
    assert set(byte_letters()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert len(set(byte_letters())) == 256


@given(STRINGS)
def test_strings_come_back_as_they_were(strings: list[str]) -> None:
    texts = from_strings(strings)
    assert len(texts) == len(strings)
    assert list(texts.strings()) == strings == [texts.string(row) for row in range(len(texts))]


@settings(deadline=None)  # the first case compiles
@given(STRINGS, st.data())
def test_rows_are_gathered_and_put(strings: list[str], data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(strings) - 1)))) if strings else []
    texts, chosen = from_strings(strings), np.array(rows, np.int64)
    assert list(texts.gather(chosen).strings()) == [strings[row] for row in rows]
    others = data.draw(st.lists(st.text("ab", max_size=3), min_size=len(rows), max_size=len(rows)))
    changed = dict(zip(rows, others, strict=True))
    put = texts.put(chosen, from_strings(others))
    assert list(put.strings()) == [changed.get(row, string) for row, string in enumerate(strings)]
    assert differing(texts, put).tolist() == [changed.get(row, text) != text for row, text in enumerate(strings)]


def test_what_changes_nothing_gives_the_same_object() -> None:
    texts = from_strings(["a", "b"])
    assert texts.put(np.array([1]), from_strings(["b"])) is texts
    assert not differing(texts, texts).any()


def test_offsets_may_begin_inside_of_the_data() -> None:
    texts = Texts(np.frombuffer(b"xyzab", np.uint8), np.array([3, 4, 5]))
    assert list(texts.strings()) == ["a", "b"]


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(0, 20), st.integers(1, 40), st.none() | st.integers(1, 5))
def test_runs_are_as_long_as_they_may_be_and_leave_nothing_out(
    sizes: list[int], first: int, most: int, most_rows: int | None
) -> None:
    found = list(runs(first + np.cumsum([0, *sizes]), most, most_rows))
    assert [row for begin, end in found for row in range(begin, end)] == list(range(len(sizes)))
    for begin, end in found:
        assert end == begin + 1 or sum(sizes[begin:end]) <= most
        assert end - begin <= (most_rows or len(sizes))
        assert end == len(sizes) or sum(sizes[begin : end + 1]) > most or end - begin == most_rows
