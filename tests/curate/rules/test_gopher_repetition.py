"""Gopher repetition: figures counted by hand and by a plain Python reading of the rule, reasons in their order."""

from __future__ import annotations

import pydoc_data.topics
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.documents import Documents
from gristmill.curate.rules.gopher_repetition import GopherRepetition
from gristmill.curate.words import words

TOPICS = [text for text in pydoc_data.topics.topics.values() if len(text) > 500]
OFF = {"dup_para_frac": None, "dup_para_char_frac": None, "dup_line_frac": None, "dup_line_char_frac": None}


def reasons(rule: GopherRepetition, documents: Documents) -> list[str | None]:
    verdict = rule.judge(documents)
    return [None if code < 0 else verdict.reasons[code] for code in verdict.codes]


def split(documents: Documents, row: int) -> list[str]:
    columns, text = words(documents, "gristmill"), documents.string(row).encode()
    own = slice(columns.offsets[row], columns.offsets[row + 1])
    return [text[start:end].decode() for start, end in zip(columns.starts[own], columns.ends[own], strict=True)]


def top_share(tokens: list[str], size: int, characters: int) -> float:
    grams = Counter(" ".join(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    gram, count = grams.most_common(1)[0] if grams else ("", 0)
    return len(gram) * count / characters if count > 1 else 0.0


def copied_share(tokens: list[str], size: int, characters: int) -> float:
    seen, copied, place = set(), 0, 0
    while place <= len(tokens) - size:
        gram = tuple(tokens[place : place + size])
        copied += len("".join(gram)) if gram in seen else 0
        place += size if gram in seen else 1
        seen.add(gram)
    return copied / characters


def expected(tokens: list[str], characters: int, rule: GopherRepetition) -> tuple[str | None, float]:
    for size, limit in rule.top_n_grams:
        if (share := top_share(tokens, size, characters)) > limit:
            return f"top_{size}_gram", share
    for size, limit in rule.dup_n_grams:
        if (share := copied_share(tokens, size, characters)) > limit:
            return f"duplicated_{size}_n_grams", share
    return None, float("nan")


def test_each_test_has_its_reason(documents):
    texts = {
        "": "empty",
        " \n\n ": "empty",
        "one\n\ntwo\n\none\n\none": "dup_para_frac",
        "a long paragraph of words\n\nb\n\nc\n\nd\n\na long paragraph of words": "dup_para_char_frac",
        "one\ntwo\none\none": "dup_line_frac",
        "a long line of words\nb\nc\nd\na long line of words": "dup_line_char_frac",
        "to be or not to be": "top_2_gram",
    }
    assert reasons(GopherRepetition(), documents(list(texts))) == list(texts.values())


def test_the_value_is_the_share_that_decided(documents):
    verdict = GopherRepetition().judge(documents(["one\ntwo\none\none", "to be or not to be", "all is well here"]))
    assert verdict.values[:2].tolist() == [2 / 4, 2 * 5 / 18]
    assert verdict.values[2] != verdict.values[2]


def test_characters_count_not_bytes(documents):
    # The copied line is 8 of 40 characters, just the limit, but 16 of 48 bytes.
    text = "\n".join(["\u00e9" * 8, "a" * 6, "b" * 6, "c" * 6, "\u00e9" * 8, ""])
    assert len(text) == 39
    assert reasons(GopherRepetition(dup_line_frac=None), documents([text])) == ["dup_line_char_frac"]
    assert reasons(GopherRepetition(dup_line_frac=None, top_n_grams=(), dup_n_grams=()), documents([text + "d"])) == [
        None
    ]


def test_an_n_gram_that_comes_once_is_no_repetition(documents):
    assert reasons(GopherRepetition(), documents(["Hello world"])) == [None]


def test_a_newline_at_the_end_is_no_line(documents):
    plain, ended = GopherRepetition(dup_line_frac=0.5).judge(documents(["a\na\na", "a\na\na\n"])).values
    assert plain == ended == 2 / 3


@pytest.mark.parametrize("scale", [1, 4])
def test_n_grams_of_real_text_are_counted_as_plain_python_counts_them(documents, scale):
    plain = GopherRepetition()
    halved = {
        name: [(size, limit / scale) for size, limit in getattr(plain, name)] for name in ("top_n_grams", "dup_n_grams")
    }
    rule, batch = GopherRepetition(**OFF, **halved), documents(TOPICS)
    verdict = rule.judge(batch)
    found = [(None if code < 0 else verdict.reasons[code]) for code in verdict.codes]
    wanted = [expected(split(batch, row), len(text), rule) for row, text in enumerate(TOPICS)]
    assert found == [reason for reason, _ in wanted]
    assert verdict.values.tolist() == pytest.approx([share for _, share in wanted], nan_ok=True)
    assert len(set(found)) > 2


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(["a", "bb", "the", "ccc", "\u00e9\u00e9"]), max_size=60).map(" ".join)))
def test_n_grams_of_any_text_are_counted_as_plain_python_counts_them(documents, texts):
    batch, rule = documents(["x", *texts]), GopherRepetition(**OFF)
    verdict = rule.judge(batch)
    for row, text in enumerate(texts, start=1):
        reason, share = expected(split(batch, row), len(text), rule) if text else ("empty", float("nan"))
        assert (None if verdict.codes[row] < 0 else verdict.reasons[verdict.codes[row]]) == reason
        assert verdict.values[row] == pytest.approx(share, nan_ok=True)


def test_a_verdict_does_not_depend_on_the_batch(documents):
    whole = GopherRepetition().judge(documents(TOPICS)).codes.tolist()
    assert [GopherRepetition().judge(documents([text])).codes[0] for text in TOPICS] == whole


def test_null_turns_a_test_off(documents):
    rule = GopherRepetition(**OFF, top_n_grams=(), dup_n_grams=())
    assert reasons(rule, documents(["one\none\none\none", "to be to be to be to be"])) == [None, None]


def test_reasons_follow_the_sizes_of_n_grams(documents):
    rule = GopherRepetition(top_n_grams=((1, 0.3),), dup_n_grams=((2, 0.2),))
    assert reasons(rule, documents(["well well well now"])) == ["top_1_gram"]
    assert reasons(rule, documents(["a b c d a b c d"])) == ["duplicated_2_n_grams"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variant": "datatrov"}, "did you mean 'datatrove'"),
        ({"top_n_grams": [(3, 0.1), (2, 0.1)]}, "rising"),
        ({"dup_n_grams": [(0, 0.1)]}, "dup_n_grams cannot be"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        GopherRepetition(**options)
