"""sums.json knows the bytes of files that are not content, and those who read them ask it first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.store.sums import check_listed, read_sums, write_sums

Make = Callable[..., Path]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_files_that_are_there_are_listed_and_compared(tmp_path: Path) -> None:
    (tmp_path / "funnel.json").write_text("[]")
    (tmp_path / "a.txt").write_text("text")
    write_sums(tmp_path, ["a.txt", "gone.txt"])
    listing = read_sums(tmp_path)
    assert {name: size for name, (size, _) in listing.items()} == {"funnel.json": 2, "a.txt": 4}
    check_listed(tmp_path / "a.txt", "a.txt", listing)
    check_listed(tmp_path / "other.txt", "other.txt", listing)
    (tmp_path / "a.txt").write_text("texT")
    with pytest.raises(StoreError, match=r"a\.txt is damaged: its size or checksum differs from sums\.json"):
        check_listed(tmp_path / "a.txt", "a.txt", listing)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(StoreError, match=r"a\.txt cannot be read"):
        check_listed(tmp_path / "a.txt", "a.txt", listing)


def test_a_store_without_a_list_has_nothing_to_compare(tmp_path: Path) -> None:
    assert read_sums(tmp_path) == {}


def test_a_damaged_table_of_documents_is_found_before_parquet_reads_it(tmp_path: Path, make_store: Make) -> None:
    path = make_store(tmp_path / "s") / "train/shard-00000.docs.parquet"
    data = path.read_bytes()
    for at in range(0, len(data), 101):
        flip(path, at)
        with pytest.raises(StoreError, match=r"shard-00000\.docs\.parquet is damaged"):
            gm.open(tmp_path / "s").document_id(0)
        path.write_bytes(data)
    assert gm.open([tmp_path / "s", make_store(tmp_path / "t", seed=1)]).document_id(0) == "train-0"


def test_a_damaged_tokenizer_decodes_nothing(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    (root / "tokenizer.json").write_text('{"model": {}}')
    write_sums(root, [])
    flip(root / "tokenizer.json", 3)
    with pytest.raises(StoreError, match=r"tokenizer\.json is damaged"):
        gm.open(root).decode([1, 2])
