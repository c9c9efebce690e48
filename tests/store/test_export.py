from __future__ import annotations

import csv
import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.local import Local
from gristmill.store.export import FORMATS, export_store
from gristmill.store.opening import open_store

Make = Callable[..., Path]
EOS = 50256


@pytest.fixture
def root(tmp_path: Path, make_store: Make) -> Path:
    """Several shards of train and one of val."""
    return make_store(tmp_path / "corpus", val=[[1, 2], [3]], tokens_per_shard=500)


def same_file(left: Path, right: Path) -> bool:
    return left.stat().st_ino == right.stat().st_ino


def test_megatron_gets_links_of_both_files_under_its_usual_names(root: Path, tmp_path: Path) -> None:
    report = export_store(root, "megatron", tmp_path / "out")
    assert report.copied == []
    assert same_file(tmp_path / "out/train-00001_text_document.bin", root / "train/shard-00001.bin")
    assert same_file(tmp_path / "out/val-00000_text_document.idx", root / "val/shard-00000.idx")
    assert any(note.startswith("--train-data-path") for note in report.notes)


def test_megatron_is_told_how_uint32_is_coded(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "wide", vocab=100_000)
    assert any("code 4 (int32)" in note for note in export_store(root, "megatron", tmp_path / "out").notes)


def test_olmo_gets_links_named_npy_with_sidecars_of_five_columns(root: Path, tmp_path: Path) -> None:
    report = export_store(root, "olmo", tmp_path / "out")
    assert same_file(tmp_path / "out/train-00000.npy", root / "train/shard-00000.bin")
    assert all(name.endswith(".csv.gz") for name in report.copied)
    with gzip.open(tmp_path / "out/val-00000.csv.gz", "rt") as file:
        assert list(csv.reader(file)) == [["0", "3", "val-0", "val.txt", "0"], ["3", "5", "val-1", "val.txt", "1"]]


def test_sidecars_are_equal_whenever_they_are_written(root: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_store(root, "olmo", tmp_path / name)
    left, right = ((tmp_path / name / "train-00000.csv.gz").read_bytes() for name in ("a", "b"))
    assert left == right and left[4:8] == bytes(4)


def test_nanogpt_gets_a_link_for_one_shard_and_a_copy_for_several(root: Path, tmp_path: Path) -> None:
    report = export_store(root, "nanogpt", tmp_path / "out")
    assert (report.linked, report.copied) == (["val.bin"], ["train.bin"])
    store = open_store(root)
    assert (np.fromfile(tmp_path / "out/train.bin", np.uint16) == store.tokens(0, store.num_tokens)).all()


def test_nanogpt_users_are_warned_of_other_dtypes(tmp_path: Path, make_store: Make) -> None:
    report = export_store(make_store(tmp_path / "wide", vocab=100_000), "nanogpt", tmp_path / "out")
    assert any("assumes uint16" in note for note in report.notes)


def test_llm_c_has_eot_before_each_document(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "corpus", [[1, 2], [3]])
    export_store(root, "llmc", tmp_path / "out")
    data = (tmp_path / "out/corpus_train_000000.bin").read_bytes()
    assert np.frombuffer(data, "<i4", 256)[:4].tolist() == [20240520, 1, 5, 0]
    assert np.frombuffer(data, "<u2", -1, 1024).tolist() == [EOS, 1, 2, EOS, 3]


def test_llm_c_has_another_magic_and_version_for_32_bits(tmp_path: Path, make_store: Make) -> None:
    export_store(make_store(tmp_path / "wide", [[70_000]], vocab=100_000), "llmc", tmp_path / "out")
    data = (tmp_path / "out/wide_train_000000.bin").read_bytes()
    assert np.frombuffer(data, "<i4", 256)[:3].tolist() == [20240801, 7, 2]
    assert np.frombuffer(data, "<u4", -1, 1024).tolist() == [99_999, 70_000]


def test_llm_c_takes_16_bits_for_gpt2_so_others_are_refused(tmp_path: Path, make_store: Make) -> None:
    with pytest.raises(ConfigError, match="GPT-2's"):
        export_store(make_store(tmp_path / "bytes", vocab=257), "llmc", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_npy_files_are_real_ones(root: Path, tmp_path: Path) -> None:
    export_store(root, "npy", tmp_path / "out")
    array = np.load(tmp_path / "out/train-00000.npy", mmap_mode="r")
    assert (array == open_store(root).shard_tokens(0)).all()


def test_a_split_alone_is_exported_alone(root: Path, tmp_path: Path) -> None:
    assert export_store(root / "val", "nanogpt", tmp_path / "out").linked == ["val.bin"]


@pytest.mark.parametrize("to", sorted(name for name, format in FORMATS.items() if not format.has_samples))
def test_an_export_reads_back_through_import_in_place(root: Path, tmp_path: Path, to: str) -> None:
    """What each format holds, opened as the foreign files they now are."""
    export_store(root / "train", to, tmp_path / "out")
    paths = sorted(path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".npy"))
    dtype = {"olmo": "uint16", "nanogpt": "uint16", "sharded-bin": "uint32"}.get(to)
    found, own = open_store(paths, dtype=dtype), open_store(root)
    tokens = found.tokens(0, found.num_tokens)
    assert np.sort(tokens).tolist() == np.sort(own.tokens(0, own.num_tokens)).tolist()
    assert to == "llmc" or (tokens == own.tokens(0, own.num_tokens)).all()


def test_across_devices_links_become_symlinks_and_never_copies(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    report = export_store(root, "megatron", tmp_path / "out")
    assert report.copied == []
    assert all((tmp_path / "out" / name).is_symlink() for name in report.linked)
    assert open_store(tmp_path / "out/train-00000_text_document.bin").num_documents > 0


def test_a_link_through_a_symlink_reaches_the_bytes_themselves(root: Path, tmp_path: Path) -> None:
    shard = root / "train/shard-00000.bin"
    shard.rename(tmp_path / "moved.bin")
    shard.symlink_to(tmp_path / "moved.bin")
    export_store(root, "megatron", tmp_path / "out")
    linked = tmp_path / "out/train-00000_text_document.bin"
    assert not linked.is_symlink() and same_file(linked, tmp_path / "moved.bin")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_something_is_refused(root: Path, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/train-00000.npy").write_text("keep")
    with pytest.raises(ConfigError, match=r"train-00000.npy is no part of an export"):
        export_store(root, "npy", tmp_path / "out", overwrite=overwrite)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train-00000.npy"]
    assert (tmp_path / "out/train-00000.npy").read_text() == "keep"


def test_overwriting_leaves_no_file_of_an_older_export(root: Path, tmp_path: Path, make_store: Make) -> None:
    export_store(root, "megatron", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"already holds an export.*overwrite=True"):
        export_store(root, "megatron", tmp_path / "out")
    small = make_store(tmp_path / "small", [[1]])
    report = export_store(small, "nanogpt", tmp_path / "out", overwrite=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*report.linked, ".lock", "gristmill-export.json"}
    assert open_store(root).num_documents == 50


def test_an_export_that_was_cut_short_says_so_and_is_finished_by_running_it_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    export_store(root, "npy", whole)

    write = Local.write

    def cut(place: Local, data: str) -> None:
        if place.path.endswith("gristmill-export.json"):  # the last file, which says that all are there
            raise KeyboardInterrupt
        write(place, data)

    with monkeypatch.context() as patched:
        patched.setattr(Local, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            export_store(root, "npy", out)
    (out / ".val-00000.npy.gristmill-0123456789abcdef.tmp").write_text("half")
    assert (out / "gristmill-unfinished.json").exists() and not (out / "gristmill-export.json").exists()
    with pytest.raises(ConfigError, match="holds an unfinished export --to npy"):
        export_store(root, "nanogpt", out)
    export_store(root, "npy", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in whole.iterdir()
    }


def test_nothing_is_written_into_the_store_itself(root: Path) -> None:
    for out in (root, root / "out"):
        with pytest.raises(ConfigError, match="lies inside the store"):
            export_store(root, "npy", out, overwrite=True)


def test_an_unknown_format_is_answered_with_a_known_one(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'megatron'"):
        export_store(root, "megatorn", tmp_path / "out")


def test_what_is_no_store_is_imported_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="foreign files are imported first"):
        export_store(tmp_path, "npy", tmp_path / "out")


def test_an_empty_split_has_nothing_to_export(tmp_path: Path, make_store: Make) -> None:
    with pytest.raises(ConfigError, match="no shards"):
        export_store(make_store(tmp_path / "s") / "val", "npy", tmp_path / "out")


def test_a_missing_index_is_named(root: Path, tmp_path: Path) -> None:
    (root / "train/shard-00000.idx").unlink()
    with pytest.raises(StoreError, match=r"shard-00000\.idx is missing"):
        export_store(root, "megatron", tmp_path / "out")
