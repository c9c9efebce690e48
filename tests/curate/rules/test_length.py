"""Length: characters are Unicode's, words the splitter's, and each bound has a reason of its own."""

from __future__ import annotations

import pydoc_data.topics

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.rules.length import Length
from gristmill.curate.rules.statistics import statistics

TOPICS = list(pydoc_data.topics.topics.values())


def reasons(verdict):
    return [None if code < 0 else verdict.reasons[code] for code in verdict.codes]


def test_each_bound_has_its_reason(documents):
    rule = Length(min_chars=3, max_chars=30, min_words=2, max_words=4, min_lines=1, max_lines=2)
    texts = ["ab", "x" * 31, "word", "a b c d e", "a b\n\nc\nd", "two words", "zwei\n\nWörter\n"]
    expected = ["too_few_chars", "too_many_chars", "too_few_words", "too_many_words", "too_many_lines", None, None]
    assert reasons(rule.judge(documents(texts))) == expected


def test_the_figure_that_decided_is_kept(documents):
    verdict = Length(min_chars=5).judge(documents(["äöü€😀", "äöü"]))
    assert verdict.codes.tolist() == [-1, 0]
    assert np.isnan(verdict.values[0]) and verdict.values[1] == 3


def test_bounds_are_inclusive(documents):
    assert Length(min_chars=5, max_chars=5).judge(documents(["a" * n for n in (4, 5, 6)])).codes.tolist() == [0, -1, 1]


def test_impossible_bounds_are_refused():
    with pytest.raises(ConfigError, match="max_chars"):
        Length(min_chars=10, max_chars=9)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_counts_are_those_of_python_strings(texts):
    check_counts(texts)


def test_counts_of_real_text():
    check_counts(TOPICS)


def check_counts(texts):
    from gristmill.curate.documents import Documents

    counts = statistics(Documents(pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())})))
    lines = [text.split("\n")[: -1 if text.endswith("\n") else None] if text else [] for text in texts]
    assert counts.characters.tolist() == [len(text) for text in texts]
    assert counts.alphabetic.tolist() == [sum(map(str.isalpha, text)) for text in texts]
    assert counts.lines.tolist() == [len(rows) for rows in lines]
    assert counts.full_lines.tolist() == [sum(bool(row.strip()) for row in rows) for rows in lines]
    assert counts.longest_line.tolist() == [max(map(len, rows), default=0) for rows in lines]


def test_counts_follow_documents_through_take(documents):
    batch = documents(TOPICS[:20])
    statistics(batch)
    rows = np.array([7, 3, 11])
    assert statistics(batch.take(rows)).characters.tolist() == [len(TOPICS[row]) for row in rows]
