from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.progress import Quiet
from gristmill.store.verify import verify

Make = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path, make_store: Make) -> Path:
    return make_store(tmp_path / "s", val=[[1, 2]], tokens_per_shard=500)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_whole_store_has_no_faults_and_is_counted(root: Path) -> None:
    verdict = verify(root)
    assert verdict.faults == []
    assert (verdict.documents, verdict.tokens) == (51, sum(f.stat().st_size for f in root.glob("*/*.bin")) // 2)


def test_one_split_can_be_verified_alone(root: Path) -> None:
    assert verify(root / "val").documents == 1


def test_progress_hears_of_every_byte_of_the_tokens(root: Path) -> None:
    class Heard(Quiet):
        done = 0

        def advance(self, amount: int) -> None:
            self.done += amount

    heard = Heard()
    assert 2 * verify(root, progress=heard).tokens == heard.done > 0


def test_a_verdict_is_true_where_the_store_is_whole(root: Path) -> None:
    assert gm.verify(str(root)).whole and gm.verify(root)
    (root / "train" / "shard-00000.bin").write_bytes(b"")
    verdict = gm.verify(root)
    assert verdict.faults and not verdict.whole and not verdict


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".ids", ".sum", ".blocks", ".docs.parquet"])
@pytest.mark.parametrize("where", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_one_flipped_bit_anywhere_is_found_and_its_shard_named(root: Path, suffix: str, where: float) -> None:
    path = root / f"train/shard-00001{suffix}"
    flip(path, int((path.stat().st_size - 1) * where))
    faults = verify(root).faults
    assert faults and all("shard-00001" in fault for fault in faults)


def test_an_older_store_has_no_sum_of_the_bytes_of_its_table_but_knows_its_rows(root: Path) -> None:
    (root / "sums.json").unlink()
    path = root / "val/shard-00000.docs.parquet"
    rows, data = pq.read_table(path), path.read_bytes()
    found = 0
    for at in range(0, len(data), 7):
        flip(path, at)
        faults = verify(root / "val").faults
        assert (faults and all("shard-00000" in fault for fault in faults)) or pq.read_table(path).equals(rows)
        found += bool(faults)
        path.write_bytes(data)
    assert found > len(data) / 14


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".ids", ".sum", ".blocks", ".docs.parquet"])
@pytest.mark.parametrize("more", [1, 7, 8])
def test_a_file_that_grew_is_found(root: Path, suffix: str, more: int) -> None:
    path = root / f"train/shard-00001{suffix}"
    path.write_bytes(path.read_bytes() + bytes(more))
    faults = verify(root).faults
    assert faults and all("shard-00001" in fault for fault in faults)


def test_every_file_is_named_with_the_sum_that_covers_it_or_as_unlisted(root: Path) -> None:
    (root / "notes.txt").write_text("mine")
    (root / "train/.pack-8.gmi.lock").touch()
    gm.index(gm.open(root), seq_len=8)
    verdict = verify(root)
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert verdict.faults == [] and verdict.unlisted == ["notes.txt"]
    assert sum(int(row["files"]) for row in verdict.covered.values()) == len(files) - 1
    assert sum(int(row["bytes"]) for row in verdict.covered.values()) == sum(f.stat().st_size for f in files) - 4
    assert {kind: row["by"] for kind, row in verdict.covered.items()} == {
        ".bin": "xxh3-64 of each MiB in .sum",
        **dict.fromkeys((".sum", ".idx", ".ids", ".blocks"), "xxh3-128 in the manifest"),
        ".docs.parquet": "xxh3-128 in sums.json",
        ".gmi": "its own sums",
        **dict.fromkeys(("manifest.json", "sums.json"), "its own sum"),
    }
    assert set(verify(root / "val").covered) == {".bin", ".sum", ".idx", ".ids", ".blocks", ".docs.parquet"}


def test_a_damaged_list_of_sums_and_a_damaged_pack_index_are_faults(root: Path) -> None:
    path = gm.index(gm.open(root), seq_len=8)
    flip(path, path.stat().st_size - 9)
    assert [fault for fault in verify(root).faults if "pack-8.gmi is damaged" in fault] == verify(root).faults != []
    path.unlink()
    flip(root / "sums.json", 60)
    assert ["sums.json is damaged" in fault for fault in verify(root).faults] == [True]
    (root / "sums.json").unlink()
    assert ["sums.json is missing" in fault for fault in verify(root).faults] == [True]


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".docs.parquet", ".ids", ".sum", ".blocks"])
def test_a_missing_file_is_found_and_named(root: Path, suffix: str) -> None:
    (root / f"train/shard-00002{suffix}").unlink()
    faults = verify(root).faults
    assert len(faults) == 1 and f"shard-00002{suffix}" in faults[0]


def test_a_shard_that_was_cut_off_is_found(root: Path) -> None:
    path = root / "train/shard-00000.bin"
    path.write_bytes(path.read_bytes()[:-2])
    assert "bytes" in verify(root).faults[0]


def test_every_damaged_shard_is_listed(root: Path) -> None:
    flip(root / "train/shard-00000.bin", 5)
    flip(root / "val/shard-00000.bin", 0)
    shards = {fault.split(":")[0] for fault in verify(root).faults}
    assert {"train/shard-00000.bin", "val/shard-00000.bin"} <= shards


def test_the_block_of_a_flipped_bit_is_named(tmp_path: Path, make_store: Make) -> None:
    big = np.random.default_rng(0).integers(0, 1000, 1_500_000).tolist()
    root = make_store(tmp_path / "big", [big], tokens_per_shard=10**7)
    flip(root / "train/shard-00000.bin", (1 << 20) + 17)
    assert "block [1]" in verify(root).faults[0]


def test_a_store_whose_eos_is_not_at_the_ends_is_found(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "odd", [[1, 50_256, 2]])
    assert "2 EOS tokens do not stand at the ends of 1 documents" in verify(root).faults[0]


def test_what_is_no_store_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="only a store made by Gristmill"):
        verify(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        verify(tmp_path / "nowhere")
