"""Every command that reads a store names what is damaged in it and exits with 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Command = Callable[..., Any]
SHARD = Path("train", "shard-00001.bin")


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(path.read_text())
    del values["sum"]
    change(values)
    path.write_text(json.dumps(values))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path, at: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a missing shard": (lambda root: (root / SHARD).unlink(), "shard-00001.bin"),
    "a truncated shard": (lambda root: cut_off(root / SHARD), "bytes, "),
    "a missing manifest": (lambda root: (root / "manifest.json").unlink(), "manifest.json"),
    "a manifest that is cut off": (lambda root: cut_off(root / "manifest.json"), "is damaged"),
    "a manifest with a flipped bit": (lambda root: flip(root / "manifest.json", 100), "sum that it names"),
    "a manifest of another version": (
        lambda root: rewrite(root / "manifest.json", lambda values: values.update(gristmill_store=99)),
        "format version 99",
    ),
    "a manifest that lacks a part": (
        lambda root: rewrite(root / "manifest.json", lambda values: values.pop("dtype")),
        "dtype",
    ),
}


@pytest.mark.parametrize("command", ["inspect", "verify", "bench"])
@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(call: Command, copied: Path, case: str, command: str) -> None:
    damage, message = DAMAGE[case]
    damage(copied)
    said = call(command, copied, code=1).said
    assert message in said and len(said.splitlines()) == 1


SILENT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a flipped bit in tokens": (lambda root: flip(root / SHARD), "checksum"),
    "a flipped bit in an index": (lambda root: flip((root / SHARD).with_suffix(".idx"), 40), "shard-00001.idx"),
    "a flipped bit in the sums": (lambda root: flip((root / SHARD).with_suffix(".sum")), ".sum"),
    "a missing table": (lambda root: (root / SHARD).with_suffix(".docs.parquet").unlink(), "docs.parquet"),
    "a flipped bit in the ids": (lambda root: flip((root / SHARD).with_suffix(".ids"), 20), ".ids"),
}


@pytest.mark.parametrize("case", SILENT)
def test_verify_finds_what_opening_cannot_see(call: Command, copied: Path, case: str) -> None:
    damage, message = SILENT[case]
    damage(copied)
    ran = call("verify", copied, code=1)
    assert message in ran.said and "shard-00001" in ran.said and "faults: " in ran.out
    assert call("verify", copied, "--json", code=1).json["faults"]


ONCE = ("tokenizer.json", "inputs.parquet", "dropped.parquet", "duplicates.parquet", "funnel.json", "run.json",
        "sums.json")  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
def test_verify_finds_a_flipped_bit_in_every_file_that_is_there_once(call: Command, copied: Path, name: str) -> None:
    flip(copied / name, (copied / name).stat().st_size // 2)
    ran = call("verify", copied, code=1)
    assert f"{name} is damaged" in ran.said and "faults: 1" in ran.out


def test_verify_says_which_sum_covers_what(gristmill: Command, call: Command, store: Path) -> None:
    said = gristmill("verify", store).out
    assert "every byte is covered by" in said and "xxh3-64 of each MiB in .sum" in said
    covered = call("verify", store, "--json").json["covered"]
    assert {"manifest.json", *ONCE, ".bin", ".idx", ".sum", ".ids", ".blocks", ".docs.parquet"} <= set(covered)


def test_verify_of_a_whole_store_or_split_says_so(call: Command, store: Path) -> None:
    assert "200 documents" in call("verify", store).out and ": whole" in call("verify", store).out
    assert call("verify", store / "val", "--json").json["faults"] == []


def test_verify_of_nothing_is_the_users_error(gristmill: Command, call: Command, tmp_path: Path) -> None:
    assert "does not exist" in gristmill("verify", tmp_path / "none", code=2).said


def test_an_empty_token_file_is_named(call: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.bin").touch()
    assert "empty.bin is empty" in call("inspect", tmp_path / "empty.bin", "--dtype", "uint16", code=1).said


def test_an_odd_number_of_bytes_is_named(call: Command, tmp_path: Path) -> None:
    np.arange(3, dtype=np.uint8).tofile(tmp_path / "odd.bin")
    assert "no multiple of 2" in call("inspect", tmp_path / "odd.bin", "--dtype", "uint16", code=1).said
