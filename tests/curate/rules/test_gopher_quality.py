"""Gopher quality: each limit has its reason and its figure, and nothing divides by zero."""

from __future__ import annotations

import pydoc_data.topics

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules.gopher_quality import GopherQuality

PROSE = "The miller said that it would be good to have flour with the bread of the town and some more of it.\n" * 3


def judged(documents, texts, **options):
    verdict = GopherQuality(**options).judge(documents(texts))
    return [None if code < 0 else verdict.reasons[code] for code in verdict.codes], verdict.values


@pytest.mark.parametrize(
    ("text", "reason", "value"),
    [
        (PROSE, None, None),
        ("", "gopher_short_doc", 0),
        ("word " * 49, "gopher_short_doc", 49),
        ("word " * 49 + "... --- ,", "gopher_short_doc", 49),
        ("the be " * 50_001, "gopher_long_doc", 100_002),
        ("a b " * 30, "gopher_below_avg_threshold", 1),
        ("considerably " * 50, "gopher_above_avg_threshold", 12),
        (PROSE + "# " * 9, "gopher_too_many_hashes", 9 / 78),
        (PROSE + " … ..." * 5, "gopher_too_many_ellipsis", 10 / 79),
        ("- the miller and the town\n" * 19 + "end", "gopher_too_many_bullets", 0.95),
        ("\t• the miller and the town\r\n" * 20, "gopher_too_many_bullets", 1),
        (
            "the miller and everybody of this town ... \n" * 4 + "and so forth with everything forever\n" * 6,
            "gopher_too_many_end_ellipsis",
            0.4,
        ),
        (PROSE + "1234 " * 30, "gopher_below_alpha_threshold", 66 / 96),
        ("The miller ground " * 20 + "the", "gopher_enough_stop_words", 1),
    ],
)
def test_each_limit_has_its_reason_and_figure(documents, text, reason, value):
    reasons, values = judged(documents, [text])
    assert reasons == [reason]
    assert value is None or values[0] == pytest.approx(value)


def test_none_is_no_limit(documents):
    texts = ["word " * 10, "a b c", "# # #", "- x\n- y"]
    unlimited = dict.fromkeys(("min_words", "min_mean_chars", "max_symbol_ratio", "max_bullet_ratio"))
    reasons, _ = judged(documents, texts, **unlimited, min_alpha_ratio=None, min_stop_words=None)
    assert reasons == [None] * 4


def test_a_text_without_words_goes_by_name(documents):
    assert judged(documents, ["", " \n"], min_words=None)[0] == ["empty", "empty"]


def test_stop_words_count_once_each_and_in_small_letters(documents):
    text = "the miller ground flour " * 20 + "AND "
    assert judged(documents, [text])[0] == ["gopher_enough_stop_words"]
    assert judged(documents, [text], stop_words=["the", "AND"])[0] == [None]


@pytest.mark.parametrize("variant", ["gristmill", "datatrove"])
def test_a_batch_judges_as_single_documents_do(documents, variant):
    texts = list(pydoc_data.topics.topics.values())[:25]
    alone = [judged(documents, [text], variant=variant)[0][0] for text in texts]
    assert judged(documents, texts, variant=variant)[0] == alone
    assert len(set(alone)) > 1


def test_an_unknown_variant_is_named():
    with pytest.raises(ConfigError, match="did you mean 'datatrove'"):
        GopherQuality(variant="datatrov")
