"""Input that cannot be read: an error that names the file, or passed over, named and counted; the rest is served."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

from .conftest import copied, served_texts

GOOD = [f"Document {i} stands in a file that is whole." for i in range(40)]
BAD = [f"Document {i} stands beside what is not." for i in range(40)]


def jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"id": text, "text": text}) + "\n" for text in texts).encode()


def gzip_that_breaks_off(folder: Path) -> None:
    (folder / "bad.jsonl.gz").write_bytes(gzip.compress(jsonl(BAD))[:-20])


def invalid_utf8(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(jsonl(BAD) + b'{"id": "x", "text": "caf\xe9"}\n')


def missing_field(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(jsonl(BAD) + b'{"id": "x", "body": "no text"}\n')


def text_of_another_kind(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(jsonl(BAD) + b'{"id": "x", "text": ["no", "text"]}\n')


def tar_with_a_damaged_member(folder: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for i, text in enumerate(BAD):
            member = tarfile.TarInfo(f"{i:03d}.text")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    data = bytearray(made.getvalue())
    data[1024 * 20 : 1024 * 20 + 512] = bytes(range(256)) * 2  # the header of a member in the middle
    (folder / "bad.tar").write_bytes(data)


def parquet_that_is_cut_off(folder: Path) -> None:
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing that a footer would tell of")


KINDS = [gzip_that_breaks_off, invalid_utf8, missing_field, text_of_another_kind, tar_with_a_damaged_member,
         parquet_that_is_cut_off]  # fmt: skip


def batches(folder: Path, on_error: str, lanes: int = 3) -> Any:
    return gm.stream(str(folder), on_error=on_error).tokenize("byte").chunk(64).batch(lanes, seed=1, epochs=1)


@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
def test_bad_input_is_an_error_that_names_it_or_is_passed_over_and_counted(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    for i in range(2):
        (tmp_path / f"good{i}.jsonl").write_bytes(jsonl(GOOD[i::2]))
    damage(tmp_path)
    with pytest.raises(gm.SourceError, match=r"bad\."):
        list(batches(tmp_path, "raise"))
    loader = batches(tmp_path, "skip").loader(keys="attention_mask")
    served = served_texts(copied(iter(loader)), 3)
    stats: Any = loader.stats()
    assert stats["unreadable"] >= 1 and all("bad." in name for name in stats["unreadable_first"])
    assert sorted(text for text in served if text in GOOD) == sorted(GOOD)
    assert set(served) <= {*GOOD, *BAD} and len(served) == len(set(served))
    again = batches(tmp_path, "skip").loader(keys="attention_mask", threads=0)
    assert served_texts(copied(iter(again)), 3) == served, "what is passed over is the same whenever it is read"


@pytest.mark.parametrize("word", ["filter", "map"])
@pytest.mark.parametrize("batch", [False, True])
def test_a_function_that_raises_is_named_with_the_document(tmp_path: Path, word: str, batch: bool) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(GOOD[:3]))

    def picky(given: Any) -> Any:
        ids = given.column("id").to_pylist() if batch else [given["id"]]
        if GOOD[1] in ids:
            raise ZeroDivisionError("the mill stands still")
        return word == "filter" or given["text"]

    stream = getattr(gm.stream(str(tmp_path)), word)(picky, batch=batch).tokenize("byte").chunk(64)
    with pytest.raises(gm.GristmillError, match=r"picky.*the mill stands still") as caught:
        list(stream.batch(1, epochs=1, shuffle=False))
    assert (GOOD[0] if batch else GOOD[1]) in str(caught.value)


@pytest.mark.parametrize(("name", "data", "said"), [
    ("a.jsonl", b"", r"1 file of 0 bytes"), ("a.jsonl", b"{bad", r"1 could not be read.*a.jsonl, line 1 is not"),
    ("a.txt", b"\xff", r"1 could not be read.*a.txt is not UTF-8"),
])  # fmt: skip
def test_epochs_without_a_document_are_an_error(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    stream = gm.stream(str(tmp_path), on_error="skip").tokenize("byte").chunk(64).batch(2, epochs=1)
    for threads in (0, 2):
        with pytest.raises(gm.SourceError, match=said):
            list(stream.loader(threads=threads))
    with pytest.warns(UserWarning, match=said):
        assert sum(len(list(stream.loader(rank, 2))) for rank in (0, 1)) == 0


def test_a_rank_without_rows_is_no_error_where_nothing_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(GOOD[:1]))
    stream = gm.stream(str(tmp_path)).tokenize("byte").chunk(64).batch(2, epochs=1)
    assert sorted(len(list(stream.loader(rank, 2))) for rank in (0, 1)) == [0, 1]
