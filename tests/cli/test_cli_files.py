"""The commands that move finished tokens: index, join, export, import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

Command = Callable[..., Any]


def test_index_builds_what_pack_reads(gristmill: Command, copied: Path) -> None:
    ran = gristmill("index", copied / "train", "--seq-len", 32)
    assert ran.out.strip() == str(copied / "train" / "pack-32.gmi")
    options = gm.PlanOptions(cut="pack")
    assert gm.Plan({"web": gm.open(copied)}, seq_len=32, batch_size=4, options=options).total_steps


def test_index_gives_a_bare_file_its_documents(gristmill: Command, call: Command, bare: Path) -> None:
    ran = gristmill("index", bare, "--dtype", "uint16", "--eos", 256)
    assert ran.out.strip() == str(bare.with_suffix(".idx"))
    assert gm.open(bare).num_documents == 60
    assert "--force" in call("index", bare, "--dtype", "uint16", "--eos", 256, code=2).said
    call("index", bare, "--dtype", "uint16", "--eos", 256, "--force")


def test_index_elsewhere_leaves_the_tokens_folder_alone(call: Command, bare: Path, tmp_path: Path) -> None:
    before = sorted(bare.parent.iterdir())
    call("index", bare, "--dtype", "uint16", "--eos", 256, "--seq-len", 16, "--index-dir", tmp_path / "indices")
    assert sorted(bare.parent.iterdir()) == before and list((tmp_path / "indices").glob("*.gmi"))


def test_index_says_what_it_needs(call: Command, store: Path) -> None:
    assert "--seq-len" in call("index", store, code=2).said
    assert "--seq-len must be" in call("index", store, "--seq-len", 0, code=2).said


def test_join_makes_one_store_of_two(gristmill: Command, call: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("another")
    call("prepare", tmp_path / "a.txt", "--out", tmp_path / "two", "--tokenizer", "byte", "--val-fraction", 0)
    ran = gristmill("join", store, tmp_path / "two", "--out", tmp_path / "both", "--json")
    assert sum(split["documents"] for split in ran.json["splits"].values()) == 201
    call("verify", tmp_path / "both")
    assert "--overwrite" in call("join", store, "--out", tmp_path / "both", code=2).said
    call("join", store, "--out", tmp_path / "both", "--overwrite")


@pytest.mark.parametrize("format", ["megatron", "olmo", "nanogpt", "npy"])
def test_export_writes_a_systems_files_and_says_how_to_use_them(
    call: Command, store: Path, tmp_path: Path, format: str
) -> None:
    ran = call("export", store, "--to", format, "--out", tmp_path / "out", "--json")
    assert ran.json["format"] == format and ran.json["notes"]
    files = [*ran.json["linked"], *ran.json["copied"]]
    assert files and all((tmp_path / "out" / name).exists() for name in files)
    assert files[0] in call("export", store, "--to", format, "--out", tmp_path / "out", "--overwrite").out


def test_export_refuses_an_unknown_format_and_a_full_folder(call: Command, store: Path, tmp_path: Path) -> None:
    assert "did you mean 'megatron'" in call("export", store, "--to", "megatorn", "--out", "o", code=2).said
    (tmp_path / "mine").touch()
    assert "is no part of an export" in call("export", store, "--to", "npy", "--out", tmp_path, code=2).said
    assert (tmp_path / "mine").exists()


def test_import_makes_a_store_of_a_bare_file(gristmill: Command, call: Command, bare: Path, tmp_path: Path) -> None:
    options = ("--dtype", "uint16", "--tokenizer", "byte")
    ran = gristmill("import", bare, "--out", tmp_path / "out", *options, "--json")
    assert (ran.json["documents"], ran.json["linked"]) == (60, ["train/shard-00000.bin"])
    store = gm.open(tmp_path / "out")
    assert np.array_equal(store.tokens(0, store.num_tokens), np.fromfile(bare, "<u2"))
    call("verify", tmp_path / "out")
    found = call("inspect", tmp_path / "out", "--doc", "part-0:3", "--json").json
    assert found[0]["text"] == store.document(3).text
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()
    assert "--overwrite" in call("import", bare, "--out", tmp_path / "out", *options, code=2).said


def test_import_into_val_by_eos(call: Command, bare: Path, tmp_path: Path) -> None:
    options = ("--tokenizer", "byte", "--split", "val", "--boundaries", "eos", "--overwrite")
    call("import", bare, "--out", tmp_path / "out", *options)
    assert gm.open(tmp_path / "out" / "val").num_documents == 60 and gm.open(tmp_path / "out").num_documents == 0


def test_import_refuses_tokens_of_another_vocabulary(call: Command, tmp_path: Path) -> None:
    np.array([1, 2, 9999, 256], dtype=np.uint16).tofile(tmp_path / "a.bin")
    options = ("--dtype", "uint16", "--tokenizer", "byte")
    assert "token 9999" in call("import", tmp_path / "a.bin", "--out", tmp_path / "out", *options, code=2).said


def test_export_as_a_process_prints_what_it_linked(
    gristmill: Command, call: Command, store: Path, tmp_path: Path
) -> None:
    ran = gristmill("export", store, "--to", "megatron", "--out", tmp_path / "out")
    assert "linked   train-00000_text_document.bin" in ran.out
    assert "--to" in call("export", store, "--out", tmp_path / "more", code=2).said
