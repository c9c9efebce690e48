"""A fastText model file: the slot for toxicity and quality classifiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import content
from gristmill.curate.rules.fasttext import FastText

# Trained on 800 lines of 30 words: 1 KB.
MODEL = str(Path(__file__).parents[2] / "data/toxic.bin")


def test_over_and_under(documents):
    batch = documents(["you stupid idiot\nI hate you", "thank you for the lovely tea"])
    assert FastText(MODEL, "toxic", max_score=0.4).judge(batch).codes.tolist() == [0, -1]
    assert FastText(MODEL, "__label__ok", min_score=0.6).judge(batch).codes.tolist() == [1, -1]


def test_the_probability_is_kept(documents):
    values = FastText(MODEL, "toxic").judge(documents(["you fool", "kind words", ""])).values
    assert values[0] > 0.9 and values[1] < 0.1 and 0 <= values[2] <= 1


def test_the_model_is_part_of_the_content():
    assert len(content(FastText(MODEL, "toxic"))["versions"]["model"]) == 16


def test_mistakes_are_explained(documents, tmp_path):
    with pytest.raises(ConfigError, match="knows no label '__label__rude', only __label__ok, __label__toxic"):
        FastText(MODEL, "rude").judge(documents(["x"]))
    with pytest.raises(ConfigError, match="cannot be read"):
        content(FastText(str(tmp_path / "absent.bin"), "toxic"))
    broken = tmp_path / "broken.bin"
    broken.write_bytes(b"no model")
    with pytest.raises(ConfigError, match="is no fastText model"):
        FastText(str(broken), "toxic").judge(documents(["x"]))
