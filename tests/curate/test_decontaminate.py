"""Decontamination against a slow search through lists of words."""

from __future__ import annotations

import pickle
import pydoc_data.topics
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError, EngineError
from gristmill.curate.base import KEEP
from gristmill.curate.decontaminate import Decontaminate, DecontaminateOptions, build_index, open_index, texts_of
from gristmill.curate.documents import Documents

TOPICS = list(pydoc_data.topics.topics.values())


def documents(texts: Sequence[str]) -> Documents:
    return Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def make(folder: Path, items: dict[str, str], **options: int) -> tuple[Decontaminate, list[str]]:
    too_short = build_index(
        ((name, [text]) for name, text in items.items()), DecontaminateOptions(["-"], **options), folder
    )
    return Decontaminate(str(folder)), too_short


def words(text: str) -> list[str]:
    """For texts of ASCII and Han: runs of letters and digits, or one Han letter."""
    return re.findall(r"[a-z0-9é]+|[一-鿿]", text.replace("\u00ad", "").lower())


def contains(text: list[str], run: list[str]) -> bool:
    return any(text[i : i + len(run)] == run for i in range(len(text) - len(run) + 1))


def is_contaminated(text: str, items: Sequence[str], ngram: int, min_words: int) -> bool:
    runs = []
    for item in map(words, items):
        length = ngram if len(item) >= ngram else len(item)
        runs += [item[i : i + length] for i in range(len(item) - length + 1)] if length >= min_words else []
    return any(contains(words(text), run) for run in runs)


PIECES = st.sampled_from(["a", "A", "b", "bb", "É", "é", "7", " ", ", ", "-", "\n", "'", "中", "文", "\u00ad", "🙂"])
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@given(items=st.lists(TEXTS, min_size=1, max_size=4), texts=st.lists(TEXTS, max_size=6), ngram=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_exactly_the_documents_that_share_a_run_of_words_are_dropped(
    items: list[str], texts: list[str], ngram: int
) -> None:
    min_words = min(3, ngram)
    named = dict(zip("wxyz", items, strict=False))
    with tempfile.TemporaryDirectory() as folder:
        try:
            rule, too_short = make(Path(folder), named, ngram=ngram, min_words=min_words)
        except ConfigError:
            assert all(len(words(item)) < min_words for item in items)
            return
        found = rule.judge(documents(texts)).codes != KEEP
    assert len(too_short) == sum(len(words(item)) < min_words for item in items)
    assert found.tolist() == [is_contaminated(text, items, ngram, min_words) for text in texts]


def test_a_match_is_found_anywhere_in_a_long_document_and_named(tmp_path: Path) -> None:
    question = "Which of these THIRTEEN words, in this order, would a model have to know by heart?"
    rule, _ = make(tmp_path, {"quiz.jsonl:7": question, "other": TOPICS[0]})
    clean = [text for text in TOPICS[1:9] if not is_contaminated(text, [TOPICS[0]], 13, 8)]
    long = "\n".join(clean)
    for place in (0, 1, len(long) // 2, len(long)):
        verdict = rule.judge(documents(["fine", long[:place] + "\n" + question.lower() + "\n" + long[place:], long]))
        assert verdict.codes.tolist() == [KEEP, 0, KEEP]
        assert verdict.reasons[0] == "contaminated"
        expected = "quiz.jsonl:7: which of these thirteen words, in this order, would a model have to"
        assert verdict.details == {1: expected}


def test_matches_across_the_pieces_in_which_a_document_is_searched(tmp_path: Path) -> None:
    rule, _ = make(tmp_path, {"item": " ".join(f"word{i}" for i in range(13))})
    for before in range(1000, 1070):
        text = "x " * before + " ".join(f"Word{i}." for i in range(13)) + " y" * 2000
        assert rule.judge(documents([text])).codes.tolist() == [0]


def test_short_items_must_be_found_whole_and_too_short_ones_are_reported(tmp_path: Path) -> None:
    items = {"nine": "one two three four five six seven eight nine", "three": "one two three", "empty": ""}
    rule, too_short = make(tmp_path, items)
    assert too_short == ["three", "empty"]
    texts = ["one two three", items["nine"].replace(" ", "... "), "one two three four five six seven eight ten nine"]
    assert rule.judge(documents(texts)).codes.tolist() == [KEEP, 0, KEEP]


def test_of_items_with_the_same_words_the_first_is_named(tmp_path: Path) -> None:
    text = " ".join(f"w{i}" for i in range(20))
    rule, _ = make(tmp_path, {"first": text, "second": text.upper()})
    assert len(open_index(str(tmp_path)).hashes) == 8
    assert rule.judge(documents([text])).details[0].startswith("first: w0 w1")


def test_equal_hashes_of_other_words_are_no_match(tmp_path: Path) -> None:
    text = " ".join(f"w{i}" for i in range(13))
    rule, _ = make(tmp_path, {"item": text})
    # The words behind the hash are exchanged, as if two texts had one hash.
    np.save(tmp_path / "data.npy", np.frombuffer(text.replace("w12", "w21").encode(), np.uint8))
    assert rule.judge(documents([text])).codes.tolist() == [KEEP]


def test_scripts_case_and_joiners(tmp_path: Path) -> None:
    items = {
        "greek": "ΟΔΟΣ ΤΟΥ ΣΩΚΡΑΤΗ",
        "chinese": "人人生而自由在尊严和权利上一律平等",
        "hindi": "सभी मनुष्यों को गौरव और अधिकारों",
        "nfd": "cafe\u0301 cre\u0300me bru\u0302le\u0301e",
    }
    rule, _ = make(tmp_path, items, ngram=3, min_words=3)
    texts = ["οδος του σωκρατη", "。自由,在", "सभी, मनुष्यों को", "Café Crème — Brû\u00adlée", "自 由 x 在"]
    found = rule.judge(documents(texts))
    assert found.codes.tolist() == [0, 0, 0, 0, KEEP]
    assert found.details[1] == "chinese: 自由,在"


def test_long_matches_are_shown_in_part(tmp_path: Path) -> None:
    text = " ".join("x" * 50 + str(i) for i in range(13))
    rule, _ = make(tmp_path, {"item": text})
    shown = rule.judge(documents([text])).details[0].removeprefix("item: ")
    assert len(shown) == 200 and text.startswith(shown[:-1])


def test_a_rule_survives_pickling_and_slices_and_empty_batches(tmp_path: Path) -> None:
    text = " ".join(f"w{i}" for i in range(13))
    rule = pickle.loads(pickle.dumps(make(tmp_path, {"item": text})[0]))
    assert rule.judge(Documents(documents(["", text, "b", text]).batch.slice(1, 2))).codes.tolist() == [0, KEEP]
    assert rule.judge(documents([])).codes.tolist() == []


def test_texts_of_a_record_are_all_its_strings_or_those_asked_for() -> None:
    record = {"id": 7, "question": "Why?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "gold": None}
    assert texts_of(record) == ["Why?", "a", "b", "A", "B"]
    assert texts_of(record, ["question"]) == ["Why?"]
    with pytest.raises(ConfigError, match="'answer'"):
        texts_of(record, ["answer"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"paths": []}, "needs paths"),
        ({"paths": ["x"], "ngram": 0}, "ngram"),
        ({"paths": ["x"], "ngram": 5}, "min_words"),
        ({"paths": ["x"], "fields": [1]}, "fields"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DecontaminateOptions(**options)  # type: ignore[arg-type]


def test_nothing_to_search_for_and_a_missing_index_are_errors(tmp_path: Path) -> None:
    for items in ([], [("a", [])], [("a", ["too short"])]):
        with pytest.raises(ConfigError):
            build_index(items, DecontaminateOptions(["-"]), tmp_path)
    with pytest.raises(EngineError, match="run again"):
        Decontaminate(str(tmp_path / "nowhere")).judge(documents(["a"]))
