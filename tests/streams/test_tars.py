"""Streams of WebDataset tars: the samples of the webdataset package, once an epoch, and resume by a seek."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import webdataset

import gristmill as gm
from gristmill.sources import webdataset as source

from .conftest import Files, assert_equal, copied, joined, served_texts, taken, tars_of

CUTS = ("chunk", "pack", "pad")


def of_bytes(paths: str, cut: str = "chunk", seq_len: int = 32) -> Any:
    return getattr(gm.stream(paths, text="txt").tokenize("byte"), cut)(seq_len)


@pytest.mark.parametrize(("count", "rows", "lanes"), [(1, 60, 1), (1, 60, 7), (3, 60, 4), (5, 3, 2), (2, 1, 16)])
def test_an_epoch_has_every_sample_that_the_webdataset_package_reads_once(
    files: Files, count: int, rows: int, lanes: int
) -> None:
    folder = tars_of(files(count, rows, longest=9))
    stream = of_bytes(f"{folder}/{{0..{count - 1}}}.tar").batch(lanes, seed=5, epochs=2)
    texts = served_texts(copied(iter(stream.loader(keys="attention_mask"))), lanes)
    urls = [str(path) for path in sorted(folder.iterdir())]
    theirs = [sample["txt"].decode() for sample in webdataset.WebDataset(urls, shardshuffle=False)]
    assert len(theirs) == count * rows and Counter(texts) == Counter(theirs * 2)


def test_a_list_of_brace_patterns_is_read(files: Files) -> None:
    folder = tars_of(files(count=3, rows=4))
    stream = of_bytes(f"{folder}/{{0..1}}.tar::{folder}/2.tar")
    assert len(stream.batch(2).units[0].files) == 3


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("hold", [1, 3])
def test_tars_go_on_from_every_step_on_any_number_of_ranks_by_a_seek(
    files: Files, monkeypatch: pytest.MonkeyPatch, cut: str, hold: int
) -> None:
    monkeypatch.setattr("gristmill.streams.units.block_bytes", lambda lanes: 600)  # many blocks a unit
    folder = tars_of(files(count=2, rows=40, longest=20))
    stream, steps = of_bytes(f"{folder}/*.tar", cut).batch(4, seed=3, hold=hold), 24
    loader = stream.loader(threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, steps):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    for step, state in enumerate(states[:-3]):
        world = (1, 2, 4)[step % 3]
        loaders = [stream.loader(rank, world, threads=step % 2) for rank in range(world)]
        for each in loaders:
            each.load_state_dict(json.loads(json.dumps(state)))
        parts = [taken(each, 3) for each in loaders]
        assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[step : step + 3])
        assert gm.merge_states([each.state_dict() for each in loaders]) == states[step + 3]
        assert all(each.stats()["read_again"] == 0 for each in loaders)
        for each in loaders:
            each.close(wait=True)


def test_a_resume_reads_no_sample_before_its_place(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.streams.units.block_bytes", lambda lanes: 600)
    monkeypatch.setattr("gristmill.sources.tar._BUFFER_BYTES", 1 << 16)  # else one read holds all of this small tar
    folder = tars_of(files(count=1, rows=400))
    stream = of_bytes(f"{folder}/0.tar").batch(1, seed=3)
    loader = stream.loader(threads=0)
    taken(loader, 800)
    read: list[int] = []
    made = source.document_batch

    def noted(file: Any, rows: Any, *columns: Any) -> Any:
        read.extend(rows)
        return made(file, rows, *columns)

    monkeypatch.setattr(source, "document_batch", noted)
    again = stream.loader(threads=0)
    again.load_state_dict(loader.state_dict())
    assert_equal(taken(again, 1), taken(loader, 1))
    assert min(read) > 0 and len(read) < 200


@pytest.mark.parametrize("packing", ["gz", "xz"])
def test_packed_tars_cannot_be_sought_in_and_what_is_read_again_is_counted(
    files: Files, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    monkeypatch.setattr("gristmill.streams.units.block_bytes", lambda lanes: 600)
    folder = tars_of(files(count=1, rows=100), packing)
    stream = of_bytes(str(folder)).batch(1, seed=3)
    loader = stream.loader(threads=0)
    first = taken(loader, 150)
    assert loader.stats()["read_again"] == 0
    again = stream.loader(threads=0)
    again.load_state_dict(loader.state_dict())
    assert_equal(taken(again, 20), taken(loader, 20))
    assert 20 < again.stats()["read_again"] < 100 and len(first) == 150


def tar_by_sizes(path: Path, sizes: list[int]) -> list[str]:
    """A tar of samples with texts of about so many bytes, as old as every other of these."""
    texts = [f"sample {i} ".ljust(size, "x") for i, size in enumerate(sizes)]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, text in enumerate(texts):
            member = tarfile.TarInfo(f"{i:03d}.txt")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    os.utime(path, (1, 1))
    return texts


def read_in_parts(path: Path, on_error: str = "raise") -> tuple[list[str], Any]:
    stream = gm.stream(str(path), text="txt", on_error=on_error).tokenize("byte").pad(1024).batch(3, epochs=1)
    loader = stream.loader(threads=0, keys="attention_mask")
    return sorted(served_texts(copied(iter(loader)), 3)), loader.stats()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where indices of tars are kept, of small ones too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("gristmill.sources.tar_index._LEAST_BYTES", 1)
    return tmp_path / "cache" / "gristmill" / "tars"


@pytest.mark.parametrize("is_new", [False, True])
def test_a_tar_that_takes_the_place_of_one_of_equal_size_and_time_is_read_whole(
    tmp_path: Path, kept: Path, is_new: bool
) -> None:
    first, second = [900, 100] * 40, [100, 900] * 40
    texts = tar_by_sizes(tmp_path / "a.tar", first)
    assert read_in_parts(tmp_path / "a.tar")[0] == sorted(texts) and list(kept.iterdir())
    size = (tmp_path / "a.tar").stat().st_size
    texts = tar_by_sizes(tmp_path / ("b.tar" if is_new else "a.tar"), second)
    if is_new:
        os.replace(tmp_path / "b.tar", tmp_path / "a.tar")
    assert (tmp_path / "a.tar").stat().st_size == size
    assert read_in_parts(tmp_path / "a.tar")[0] == sorted(texts)


def test_an_index_of_another_tar_is_told_by_whoever_reads_up_to_where_it_is_wrong(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.places.local.Local.identity", lambda place: (place.size(), 0))  # as if none knew
    tar_by_sizes(tmp_path / "a.tar", [100, 100, 900] * 40)
    read_in_parts(tmp_path / "a.tar")
    texts = tar_by_sizes(tmp_path / "a.tar", [900, 100, 100] * 40)
    found, stats = read_in_parts(tmp_path / "a.tar", "skip")
    assert found != sorted(texts) and "is another tar than the one" in str(stats["unreadable_first"])
    assert read_in_parts(tmp_path / "a.tar")[0] == sorted(texts)


def test_the_sample_before_the_damage_is_served_and_a_resume_serves_it_again(tmp_path: Path) -> None:
    texts = tar_by_sizes(tmp_path / "a.tar", [100] * 10)
    data = bytearray((tmp_path / "a.tar").read_bytes())
    data[5 * 1024 : 5 * 1024 + 100] = b"!" * 100
    (tmp_path / "a.tar").write_bytes(data)
    stream = gm.stream(str(tmp_path), text="txt", on_error="skip").tokenize("byte").pad(128).batch(1, epochs=1)
    loader = stream.loader(threads=0, keys="attention_mask")
    states, batches = [], []
    for batch in loader:
        batches += copied(iter([batch]))
        states.append(loader.state_dict())
    assert sorted(served_texts(batches, 1)) == sorted(texts[:5])
    assert "'004', is kept and may lack members" in str(loader.stats()["unreadable_first"])
    for step, state in enumerate(states):
        again = stream.loader(threads=0, keys="attention_mask")
        again.load_state_dict(state)
        assert_equal(copied(iter(again)), batches[step + 1 :])


def test_samples_that_cannot_be_read_are_named_or_counted(tmp_path: Path, files: Files) -> None:
    folder = tars_of(files(count=1, rows=20))
    (folder / "0.tar").write_bytes((folder / "0.tar").read_bytes()[:10_000])
    with pytest.raises(gm.SourceError, match=r"0.tar is damaged, cut off or no tar after"):
        list(of_bytes(str(folder)).batch(2, epochs=1))
    loader = gm.stream(str(folder), on_error="skip").tokenize("byte").pad(512).batch(2, epochs=1).loader()
    list(loader)
    figures = loader.stats()
    assert figures["unreadable"] == 1 and 0 < figures["after"]["read"][0] < 20  # type: ignore[index]


@pytest.mark.parametrize("other", ["b.jsonl", "b.txt.gz"])
@pytest.mark.parametrize("hold", [1, 2, 4])
def test_of_tars_held_with_other_files_each_document_comes_once(tmp_path: Path, other: str, hold: int) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(20):
            member = tarfile.TarInfo(f"{i:03d}.txt")
            member.size = 400
            tar.addfile(member, io.BytesIO(f"<{i:03d}>".encode() * 80))
    (tmp_path / other).write_bytes(gzip.compress(b"one more") if other.endswith("gz") else b"")
    stream = gm.stream(str(tmp_path)).tokenize("byte").pad(512).batch(2, epochs=1, hold=hold, seed=0)
    served = [each.doc_id for step in range(sum(1 for _ in stream)) for each in stream.trace(step)]
    assert len(served) == len(set(served)) == 20 + other.endswith("gz")
