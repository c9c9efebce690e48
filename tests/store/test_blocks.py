"""`.blocks` sums every 4 KiB of a shard's files, and what is read of them is compared with it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.store.blocks import BLOCK, check_blocks, read_checked, read_head, write_blocks
from gristmill.store.format import block_sums
from gristmill.store.manifest import load_manifest

Make = Callable[..., Path]
IDX, IDS = os.urandom(3 * BLOCK + 1), os.urandom(BLOCK)
TOKENS = np.arange(40_000, dtype=np.uint16)


@pytest.fixture
def made() -> tuple[bytes, str]:
    file = io.BytesIO()
    checksum = write_blocks(file, IDX, IDS, TOKENS.nbytes, block_sums(TOKENS, BLOCK))
    return file.getvalue(), checksum


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def test_what_is_written_is_read_back(made: tuple[bytes, str]) -> None:
    data, checksum = made
    head = read_head(data, checksum, "x")
    assert head.sizes == (len(IDX), len(IDS), TOKENS.nbytes) and (len(head.idx), len(head.ids)) == (4, 1)
    assert (check_blocks(array(data), checksum, "x") == block_sums(TOKENS, BLOCK)).all()


def test_any_change_of_a_byte_or_of_the_size_is_found(made: tuple[bytes, str]) -> None:
    data, checksum = made
    for at in range(len(data)):
        for other in (data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], data[:at]):
            with pytest.raises(StoreError, match=r"shard\.blocks"):
                check_blocks(array(other), checksum, "shard.blocks")
    with pytest.raises(StoreError, match="sums of its tokens"):
        check_blocks(array(data + b"\0"), checksum, "x")


def test_any_part_of_a_file_can_be_read_and_checked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(IDX)
    sums = block_sums(array(IDX), BLOCK)
    with open(tmp_path / "a", "r+b", buffering=0) as file:
        for at, size in ((0, 1), (5, BLOCK), (BLOCK - 1, 2), (3 * BLOCK, 1), (0, len(IDX))):
            assert read_checked(file, at, size, sums, "a") == IDX[at : at + size]
        os.pwrite(file.fileno(), bytes([IDX[BLOCK] ^ 1]), BLOCK)
        assert read_checked(file, 0, BLOCK, sums, "a") == IDX[:BLOCK]
        with pytest.raises(StoreError, match="a is damaged: the sum of its block 1 "):
            read_checked(file, BLOCK - 1, 2, sums, "a")
        with pytest.raises(StoreError, match="block 4"):
            read_checked(file, len(IDX), BLOCK, sums, "a")


def test_a_shard_has_sums_of_its_files_and_the_manifest_knows_them(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [list(range(50_000))] * 2, tokens_per_shard=10**6)
    entry = load_manifest(root).splits["train"][0]
    data = (root / "train/shard-00000.blocks").read_bytes()
    head = read_head(data, entry.blocks_checksum, "x")
    for suffix, sums in ((".idx", head.idx), (".ids", head.ids)):
        assert (sums == block_sums(array((root / f"train/shard-00000{suffix}").read_bytes()), BLOCK)).all()
    tokens = np.fromfile(root / "train/shard-00000.bin", np.uint16)
    assert (check_blocks(array(data), entry.blocks_checksum, "x") == block_sums(tokens, BLOCK)).all()


def test_a_damaged_place_of_the_ids_is_found_where_it_is_read(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1]] * 5000, tokens_per_shard=10**6)
    path = root / "train/shard-00000.ids"
    data = bytearray(path.read_bytes())
    data[16 + 8 * 5000 + 1] ^= 128  # a row number becomes another, beyond the documents
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"shard-00000\.ids is damaged"):
        gm.open(root).locate([f"train-{i}" for i in range(5000)])
    path.write_bytes(bytes(data) + b"\0")
    with pytest.raises(StoreError, match=r"shard-00000\.ids is damaged \(it does not hold 5,000 ids\)"):
        gm.open(root).locate(["train-1"])
