"""Language: right on paragraphs of 60 languages, equal to py3langid, the same in any batch."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import language_model
from gristmill.curate.rules.language import Language, normalise

SAMPLE = [json.loads(line) for line in (Path(__file__).parents[2] / "data/languages.jsonl").read_text().splitlines()]
TEXTS = [row["text"] for row in SAMPLE]
GERMAN = next(row["text"] for row in SAMPLE if row["language"] == "de")


def languages(batch, limit=2048):
    labels, scores = language_model.identify(batch.data, batch.offsets, limit)
    names = language_model.load().languages
    return [names[label] if label >= 0 else None for label in labels], scores


def test_right_on_98_of_100_paragraphs_in_60_languages(documents):
    assert len({row["language"] for row in SAMPLE}) == 60
    found, _ = languages(documents(TEXTS))
    assert np.mean([row["language"] == code for row, code in zip(SAMPLE, found, strict=True)]) >= 0.98


def test_answers_equal_those_of_py3langid(documents):
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    texts = [*TEXTS[::4], GERMAN.upper(), unicodedata.normalize("NFD", TEXTS[-3]), "ok", "12 345 678,90"]
    found, scores = languages(documents(texts), 1 << 16)
    for text, code, score in zip(texts, found, scores, strict=True):
        theirs, confidence = identifier.classify(text)
        if code is not None:
            assert code == language_model.RENAMED.get(theirs, theirs)
            assert score == pytest.approx(confidence, abs=1e-3)


def test_the_answer_does_not_depend_on_the_batch(documents):
    together, scores = languages(documents(TEXTS))
    for row in range(0, len(TEXTS), 7):
        alone, score = languages(documents(TEXTS[row : row + 1]))
        assert alone == together[row : row + 1] and score[0] == scores[row]


def test_a_long_document_is_judged_from_all_over_it(documents):
    english = next(row["text"] for row in SAMPLE if row["language"] == "en")
    found, _ = languages(documents([english + " " + GERMAN * 200, "é" * 1000 + GERMAN * 30]))
    assert found == ["de", "de"]


def test_reasons_and_evidence(documents):
    verdict = Language(keep=["de"], min_score=0.65).judge(
        documents([GERMAN, TEXTS[0], "1234 5678 +++", "", GERMAN.upper()])
    )
    reasons = [None if code < 0 else verdict.reasons[code] for code in verdict.codes]
    assert reasons == [None, "language_other", "language_unknown", "language_unknown", None]
    assert verdict.details[1] == SAMPLE[0]["language"]
    assert verdict.values[0] > 0.99


def test_an_unsure_answer_is_dropped_by_score(documents):
    sure, unsure = Language(min_score=0.65), Language(keep=["de"], min_score=1.0)
    batch = documents([GERMAN])
    score = sure.judge(batch).values[0]
    assert sure.judge(batch).kept.all()
    verdict = unsure.judge(batch)
    assert verdict.kept.all() == (score >= 1.0)


def test_no_documents(documents):
    assert len(Language(keep=["en"]).judge(documents([])).codes) == 0


@pytest.mark.parametrize(
    ("code", "expected"), [("iw", "he"), ("zh-Hant", "zh"), ("pt_BR", "pt"), ("nb", "no"), (False, "no"), ("EN", "en")]
)
def test_codes_are_normalised(code, expected):
    assert normalise(code) == expected


def test_unknown_codes_and_options_are_refused(documents):
    with pytest.raises(ConfigError, match=r"'xx'"):
        Language(keep=["xx"]).judge(documents([GERMAN]))
    with pytest.raises(ConfigError, match=r"keep: \[en\]"):
        Language(keep="en")
    with pytest.raises(ConfigError, match="min_score"):
        Language(min_score=65)
    with pytest.raises(ConfigError, match="sample_bytes"):
        Language(sample_bytes=3)
