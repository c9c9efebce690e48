"""The model inside py3langid, run by our kernel: its own answers on the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from gristmill.curate.rules.language_model import NO_LANGUAGE, RENAMED, identify, load

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "私はガラスを食べられます。それは私を傷つけません。",
    "Voix ambiguë d'un cœur qui au zéphyr préfère les jattes de kiwis.",
]


def identified(texts: list[str], limit: int = 1 << 16) -> list[tuple[str | None, float]]:
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.append(0, np.cumsum([len(text.encode()) for text in texts]))
    labels, scores = identify(data, offsets, limit)
    names = [None if label < 0 else load().languages[label] for label in labels]
    return list(zip(names, scores.tolist(), strict=True))


def test_the_answers_are_those_of_py3langid() -> None:
    own = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for (name, score), text in zip(identified(TEXTS), TEXTS, strict=True):
        expected, probability = own.classify(text)
        assert name == RENAMED.get(expected, expected) and score == pytest.approx(float(probability), abs=2e-3)


def test_what_is_no_language_is_told_as_such() -> None:
    assert identified(["0x3f 0x9a 11:22:33 {} [] 42"])[0][0] == NO_LANGUAGE


def test_capitals_and_taken_apart_letters_are_judged_as_usual_ones() -> None:
    import unicodedata

    usual, capitals, apart = identified(
        [TEXTS[1], TEXTS[1].upper().replace("SS", "ß"), unicodedata.normalize("NFD", TEXTS[1])]
    )
    assert usual[0] == capitals[0] == apart[0] == "de" and usual == apart


def test_an_answer_does_not_depend_on_the_other_texts() -> None:
    assert identified(TEXTS) == [identified([text])[0] for text in TEXTS]


def test_the_model_is_unpacked_once_a_machine_and_the_kept_one_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    load.cache_clear()
    made = load()
    monkeypatch.setattr(LanguageIdentifier, "from_model_file", None)  # what would unpack it again
    load.cache_clear()
    kept = load()
    assert kept is not made and kept.languages == made.languages
    for one, other in zip(kept.automaton + kept.bayes, made.automaton + made.bayes, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
