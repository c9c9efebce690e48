"""FineWeb: each limit has its reason and its figure; lines are split at line feeds only."""

from __future__ import annotations

import pydoc_data.topics

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.rules.fineweb import FineWeb

LONG = "a line that is surely longer than the thirty characters of a short one, number"


def judged(documents, texts, **options):
    verdict = FineWeb(**options).judge(documents(texts))
    return [None if code < 0 else verdict.reasons[code] for code in verdict.codes], verdict.values


def lines(count, end=".", text=LONG):
    return "\n".join(f"{text} {number}{end}" for number in range(count))


@pytest.mark.parametrize(
    ("text", "reason", "value"),
    [
        (lines(8), None, None),
        ("", "empty", 0),
        (" \n\t\n", "empty", 0),
        (lines(8, ""), "line_punct_ratio", 0),
        (lines(8, '."'), "line_punct_ratio", 0),
        (lines(8, "。"), None, None),
        (lines(8, ". "), "line_punct_ratio", 0),
        (lines(4, ".", "short"), "short_line_ratio", 1),
        (lines(8) + "\n" + LONG + " 0.", "char_dup_ratio", 1 / 9),
        (lines(8).replace(" ", "").replace("\n", "\n" * 9), "list_ratio", None),
    ],
)
def test_each_limit_has_its_reason_and_figure(documents, text, reason, value):
    reasons, values = judged(documents, [text])
    assert reasons == [reason]
    assert value is None or values[0] == pytest.approx(value)


def test_pages_without_any_punctuation_may_be_exempt(documents):
    assert judged(documents, [lines(8, "")], line_punct_exempt_zero=True)[0] == [None]
    assert judged(documents, [lines(18, "") + "\nend."], line_punct_exempt_zero=True)[0] == ["line_punct_ratio"]


def test_none_is_no_limit(documents):
    limits = dict.fromkeys(("line_punct_ratio", "short_line_ratio", "char_dup_ratio", "list_ratio"))
    assert judged(documents, ["a\na\na\n\n\n"], **limits)[0] == [None]


@given(text=st.text(alphabet="aé。. \n\r\u2028", max_size=80))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_figures_are_those_of_plain_python(documents, text):
    full = [line for line in text.split("\n") if line.strip()]
    figures = [column[0] for column in FineWeb()._measure(documents([text]))]
    assert figures[0] == len(full)
    if full:
        again = sum(len(line) for row, line in enumerate(full) if line in full[:row])
        assert figures[1] == sum(line.endswith((".", "。")) for line in full) / len(full)
        assert figures[2] == sum(len(line) <= 30 for line in full) / len(full)
        assert figures[3] == again / len(text.replace("\n", ""))


@pytest.mark.parametrize("variant", ["gristmill", "datatrove"])
def test_a_batch_judges_as_single_documents_do(documents, variant):
    texts = list(pydoc_data.topics.topics.values())[:25]
    alone = [judged(documents, [text], variant=variant)[0][0] for text in texts]
    assert judged(documents, texts, variant=variant)[0] == alone
    assert None in alone


def test_an_unknown_variant_is_named():
    with pytest.raises(ConfigError, match="did you mean 'datatrove'"):
        FineWeb(variant="datatrov")
