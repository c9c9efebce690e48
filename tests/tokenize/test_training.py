"""Training an own tokenizer: the file opens as any other, and depends on the texts alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from gristmill.core.errors import ConfigError, SourceError
from gristmill.tokenize import load_tokenizer
from gristmill.tokenize.training import train_tokenizer

TEXTS = list(topics.values())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "tokenizer.json"
    report = train_tokenizer(TEXTS, path, vocab_size=2000)
    assert (report.path, report.vocab_size, report.documents) == (str(path), 2000, len(TEXTS))
    assert report.text_bytes == sum(len(text.encode()) for text in TEXTS)
    assert report.notes == []
    return path


def test_the_file_opens_with_the_fast_backend_and_its_own_end_of_document(trained: Path) -> None:
    tokenizer = load_tokenizer(str(trained))
    assert (tokenizer.backend, tokenizer.vocab_size, tokenizer.note) == ("gigatoken", 2000, "")
    assert tokenizer.decode([tokenizer.eos]) == "<|endoftext|>"


def test_text_comes_back_and_takes_fewer_tokens_than_bytes(trained: Path) -> None:
    tokenizer = load_tokenizer(str(trained))
    ids, _ = tokenizer.encode_batch([TEXTS[0]])
    assert tokenizer.decode(ids) == TEXTS[0]
    assert len(ids) < len(TEXTS[0].encode()) / 2.5


def test_scripts_that_were_not_seen_and_a_forged_end_are_ordinary_bytes(trained: Path) -> None:
    tokenizer = load_tokenizer(str(trained))
    for text in ("Κάθε γλώσσα, 日本語も 🙂\0", "a <|endoftext|> in a document"):
        ids, _ = tokenizer.encode_batch([text])
        assert tokenizer.decode(ids) == text
        assert tokenizer.eos not in ids


def test_the_order_of_texts_does_not_matter(trained: Path, tmp_path: Path) -> None:
    shuffled = random.Random(5).sample(TEXTS, len(TEXTS))
    train_tokenizer(shuffled, tmp_path / "again.json", vocab_size=2000)
    assert (tmp_path / "again.json").read_bytes() == trained.read_bytes()


@pytest.mark.parametrize("environment", [{"RAYON_NUM_THREADS": "1"}, {"RAYON_NUM_THREADS": "5", "PYTHONHASHSEED": "7"}])
def test_threads_and_processes_do_not_matter(trained: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    code = (
        "import sys, pathlib, pydoc_data.topics as t; from gristmill.tokenize.training import train_tokenizer as train;"
        "train(t.topics.values(), pathlib.Path(sys.argv[1]), vocab_size=2000)"
    )
    out = tmp_path / "other.json"
    subprocess.run([sys.executable, "-c", code, str(out)], check=True, env={**os.environ, **environment})
    assert out.read_bytes() == trained.read_bytes()


def test_a_limit_stops_after_whole_documents_and_says_so(tmp_path: Path) -> None:
    read: list[int] = []

    def texts() -> Iterator[str]:
        for i in range(1000):
            read.append(i)
            yield "ten bytes\n"

    report = train_tokenizer(texts(), tmp_path / "t.json", vocab_size=260, limit_bytes=95)
    assert (report.documents, report.text_bytes) == (10, 100)
    assert report.notes == ["Text after the first 100 bytes was not read (limit_bytes)."]
    assert len(read) < 1000


def test_a_limit_that_all_texts_fit_in_is_not_mentioned(tmp_path: Path) -> None:
    assert train_tokenizer(["ten bytes\n"] * 10, tmp_path / "t.json", vocab_size=260, limit_bytes=100).notes == []


def test_too_little_text_for_the_vocabulary_is_said(tmp_path: Path) -> None:
    report = train_tokenizer(["to be or not to be"], tmp_path / "t.json", vocab_size=5000)
    assert 257 < report.vocab_size < 270
    assert len(report.notes) == 1 and f"Only {report.vocab_size} of 5,000 ids" in report.notes[0]


def test_a_pair_that_occurs_once_is_not_merged(tmp_path: Path) -> None:
    assert train_tokenizer(["aa bb"], tmp_path / "once.json", vocab_size=300).vocab_size == 257
    assert train_tokenizer(["aa aa bb"], tmp_path / "twice.json", vocab_size=300).vocab_size > 257


def test_no_text_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(ConfigError, match="no text to train"):
            train_tokenizer(texts, tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()


def test_an_error_of_the_reader_passes_through_and_leaves_no_file(tmp_path: Path) -> None:
    def texts() -> Iterator[str]:
        yield "something"
        raise SourceError("row 2 of x.jsonl is damaged")

    with pytest.raises(SourceError, match="row 2"):
        train_tokenizer(texts(), tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()


def test_half_a_character_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Document 1 to train on is no valid Unicode"):
        train_tokenizer(["fine", "\ud800"], tmp_path / "t.json")


def test_a_file_is_only_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        train_tokenizer(TEXTS, path)
    train_tokenizer(TEXTS[:5], path, vocab_size=300, overwrite=True)
    assert load_tokenizer(str(path)).vocab_size == 300


def test_a_vocabulary_without_room_for_all_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size must be at least 257"):
        train_tokenizer(TEXTS, tmp_path / "t.json", vocab_size=256)
