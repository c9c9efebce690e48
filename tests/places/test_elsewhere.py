"""A place that is not this machine is read like any other: nothing outside the door opens what lies there.

Its files are bytes in a dictionary, so that whoever goes round the door, or maps a file, finds nothing.
"""

from __future__ import annotations

import fnmatch
import io
import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.mix import Mix
from gristmill.places import door
from gristmill.places.base import Place
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.frames import Frames
from gristmill.store.verify import verify
from gristmill.streams.stores import StoreRows

SCHEME = "memory://"


class Asked(io.BytesIO):
    """An open file; `note` is told of each read."""

    def __init__(self, data: bytes, note: Any) -> None:
        super().__init__(data)
        self._note = note

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._note(len(data))
        return data


class Memory(Place):
    """Files in a dictionary by their whole address; it counts what is asked of it, and the longest read of each."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[Counter[str]] = Counter()
    longest: ClassVar[Counter[str]] = Counter()

    def __init__(self, path: str) -> None:
        assert path.startswith(SCHEME), path
        self.path = path

    def _data(self) -> bytes:
        if self.path not in self.files:
            raise FileNotFoundError(2, "No such key", self.path)
        return self.files[self.path]

    def exists(self) -> bool:
        return self.is_file() or self.is_folder()

    def is_file(self, *, links: bool = True) -> bool:
        return self.path in self.files

    def is_folder(self) -> bool:
        return any(key.startswith(f"{self.path}/") for key in self.files)

    def is_link(self) -> bool:
        return False

    def real(self) -> str:
        return self.path

    def size(self) -> int:
        self.asked["size"] += 1
        return len(self._data())

    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        cls.asked["sizes"] += 1
        return (len(cls(path)._data()) for path in paths)

    def stamp(self) -> tuple[int, int]:
        return len(self._data()), 0

    def names(self) -> list[str]:
        return sorted({key.removeprefix(f"{self.path}/").split("/")[0] for key in self.files if self.path in key})

    def walk(self, *, links: bool) -> Iterator[tuple[str, list[str]]]:
        for folder in sorted({key.rpartition("/")[0] for key in self.files if key.startswith(f"{self.path}/")}):
            yield folder, sorted(key.rpartition("/")[2] for key in self.files if key.rpartition("/")[0] == folder)

    def matching(self) -> list[str]:
        return sorted(key for key in self.files if fnmatch.fnmatch(key, self.path))

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        return Asked(self._data(), self._note)

    def _note(self, size: int) -> None:
        self.longest[self.path] = max(self.longest[self.path], size)

    def read(self, start: int = 0, size: int = -1) -> bytes:
        data = super().read(start, size)
        if size >= 0:
            self.asked.update(parts=1, bytes=len(data))
        return data


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Raw text and a store made of it, here and under memory://."""
    monkeypatch.setitem(door.PLACES, "memory", Memory)
    for i in range(8):
        raw = tmp_path / "raw" / f"{i}.jsonl"
        raw.parent.mkdir(exist_ok=True)
        raw.write_text("".join(f'{{"id": "{i}-{j}", "text": "{f"text {i} {j} " * 20}"}}\n' for j in range(40)))
    gm.prepare(recipe(tmp_path / "corpus", str(tmp_path / "raw")))
    return upload(tmp_path)


@pytest.fixture(params=["none", "zstd"])
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_store: Any, request: pytest.FixtureRequest) -> Path:
    """A store of several shards, each of several frames, plain or compressed, here and under memory://.

    A request brings no waiting neighbours: how many wait hangs on how busy this machine is, and these tests count.
    """
    monkeypatch.setitem(door.PLACES, "memory", Memory)
    monkeypatch.setattr("gristmill.store.supply.TOGETHER_SPEED", math.inf)
    documents = [[(7 * i + j) % 1000 for j in range(3000)] for i in range(150)]
    make_store(tmp_path / "corpus", documents, tokens_per_shard=2 * FRAME_TOKENS + 500, compression=request.param)
    return upload(tmp_path)


MADE: list[gm.Loader] = []


def upload(root: Path) -> Path:
    while MADE:  # loaders of other tests, which may still read and fetch ahead
        MADE.pop().close(wait=True)
    for thread in threading.enumerate():
        if thread.name == "gristmill-fetch":
            thread.join()
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    Memory.files = {f"{SCHEME}{name}": data for name, data in found.items() if "/." not in name}
    Memory.asked.clear()
    Memory.longest.clear()
    return root


def recipe(out: Path, raw: str, **options: Any) -> gm.Recipe:
    store: Any = {"tokens_per_shard": 4_000, "val_fraction": 0.1}
    return gm.Recipe(str(out), [{"name": "web", "paths": [raw]}], tokenizer="byte", store=store, **options)  # type: ignore[list-item]


def loader(store: gm.Store, cut: str = "chunk", **options: Any) -> gm.Loader:
    plan = gm.Plan(store, seq_len=64, batch_size=8, seed=1, options=gm.PlanOptions(cut=cut))
    MADE.append(gm.Loader(plan, keys=("labels", "doc_ids"), **options))
    return MADE[-1]


def fetched_ahead(its: gm.Loader) -> None:
    """Wait until all that a loader wants ahead of time is there."""
    frames = its._assembler.fetched
    assert frames is not None
    frames.supply._workers.join()


def tokens_read() -> list[str]:
    return [path for path in Memory.longest if path.endswith((".bin", ".bin.zst"))]


def test_a_store_elsewhere_is_opened_and_serves_the_same_batches(local: Path) -> None:
    here, there = gm.open(local / "corpus"), gm.open("memory://corpus")
    assert there.fingerprint == here.fingerprint and there.num_shards > 10
    assert there.document(7).text == here.document(7).text and there.locate(["3-7"]) == here.locate(["3-7"])
    mine, its = loader(here), loader(there)
    for step in (0, 5, 40):
        expected, found = mine.batch(step), its.batch(step)
        assert all(np.array_equal(expected[key], found[key]) for key in expected)


@pytest.mark.parametrize("cut", ["chunk", "window", "pad", "pack"])
def test_tokens_elsewhere_are_leased_a_frame_at_a_time_and_batches_are_the_same(large: Path, cut: str) -> None:
    here, there = (gm.open(path, index_dir=large / "index") for path in (large / "corpus", "memory://corpus"))
    gm.index(here, seq_len=64)
    mine, its = loader(here, cut), loader(there, cut, threads=2)
    for _, expected, found in zip(range(150), mine, its, strict=False):
        assert all(np.array_equal(expected[key], found[key]) for key in expected)
    *read, _ = sorted(tokens_read())  # the last shard is shorter than a frame
    assert len(read) == there.num_shards - 1 > 1
    assert all(Memory.longest[path] <= min(2 * FRAME_TOKENS, len(Memory.files[path]) - 1) for path in read)


def test_what_a_batch_reads_is_asked_for_once_and_before_the_batch_is(large: Path) -> None:
    its = loader(gm.open("memory://corpus"), readahead_bytes=1)
    fetched_ahead(its)
    asked = Memory.asked.copy()
    tables = len(tokens_read()) if any("zst" in path for path in Memory.longest) else 0
    assert 3 + tables <= asked["parts"] <= 16 + tables
    its.batch(0)
    assert Memory.asked == asked


@pytest.mark.parametrize("cut", ["chunk", "pad", "pack"])
def test_what_a_mix_needs_of_a_store_elsewhere_is_found_for_steps_that_have_no_row_of_it_too(
    large: Path, cut: str
) -> None:
    there = gm.open("memory://corpus", index_dir=large / "index")
    gm.index(gm.open(large / "corpus", index_dir=large / "index"), seq_len=64)
    plan = gm.Plan({"kept": there}, seq_len=64, batch_size=1, options=gm.PlanOptions(cut=cut))
    mix = Mix((Fraction(9, 10), Fraction(1, 10)), 4096, 3)
    rows = StoreRows(plan, mix, 2, ("input_ids",), None, None)
    few = 0
    for step in range(100):
        found = rows._located(2, lambda first, count: mix.labels(np.arange(2 * first, 2 * count + 2 * first)),
                              range(step, step + 1))  # fmt: skip
        extents, steps = rows._touched(found)
        assert (len(extents) > 0) == (len(found.steps) > 0) and not steps.any()
        few += len(found.steps) == 0
    assert 50 < few < 100


def test_with_locality_each_block_is_fetched_once_an_epoch(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frames.__init__, "__defaults__", (1,))
    # Room for one group of steps beside the window: fetching ahead may be that much past its bound.
    monkeypatch.setattr("gristmill.loader.batch.CACHE_BYTES", 1 << 18)
    fetched = {}
    for name, options in {"far": {}, "near": {"locality": {"block": 1024, "window": 2}}}.items():
        Memory.asked.clear()
        plan = gm.Plan(gm.open("memory://corpus"), seq_len=64, batch_size=8, options=options)
        for _ in gm.Loader(plan, threads=0, keys="labels", readahead_bytes=1 << 17):
            pass
        fetched[name] = Memory.asked["bytes"]
    size = sum(len(data) for path, data in Memory.files.items() if "train/" in path and ".bin" in path)
    assert size <= fetched["near"] <= 1.08 * size < fetched["far"] / 3


def test_a_frame_that_came_damaged_is_named_each_time(large: Path) -> None:
    path = next(path for path in Memory.files if "train/shard-00001.bin" in path)
    whole = Memory.files[path]
    Memory.files[path] = whole[:500] + bytes([whole[500] ^ 1]) + whole[501:]
    its = loader(gm.open("memory://corpus"), threads=0)
    for _ in range(2):
        with pytest.raises(gm.StoreError, match=r"shard memory://corpus/train/shard-00001\.bin|Shard memory://corpus"):
            list(its)
    fetched_ahead(its)  # else what was asked for ahead of time, and is the damaged one still, would be awaited
    Memory.files[path] = whole
    assert sum(1 for _ in its)


def test_opening_a_store_elsewhere_asks_nothing_of_its_shards(local: Path) -> None:
    gm.open("memory://corpus/train")
    assert not Memory.asked and not any("shard-" in path for path in Memory.longest)


def test_a_store_elsewhere_is_verified(local: Path) -> None:
    assert verify("memory://corpus").whole
    shard = "memory://corpus/train/shard-00001.bin"
    Memory.files[shard] = bytes(len(Memory.files[shard]))
    assert any("shard-00001" in fault for fault in verify("memory://corpus").faults)


@pytest.mark.parametrize("given", ["memory://raw", "memory://raw/*.jsonl", "memory://raw/{0..7}.jsonl"])
def test_sources_elsewhere_make_the_same_store(local: Path, given: str) -> None:
    made = gm.prepare(recipe(local / "out", given))
    assert made.splits == gm.prepare(recipe(local / "again", str(local / "raw"))).splits


def test_a_file_elsewhere_that_is_missing_is_named(local: Path) -> None:
    del Memory.files["memory://corpus/train/shard-00002.bin"]
    with pytest.raises(gm.StoreError, match=r"shard-00002\.bin cannot be opened \(No such key\)"):
        list(loader(gm.open("memory://corpus")))


def test_a_plan_elsewhere_finds_its_store_beside_it(local: Path) -> None:
    plan = gm.Plan(gm.open("memory://corpus"), seq_len=64, batch_size=8)
    for place in ("memory://corpus/train", "train"):
        Memory.files["memory://corpus/plan.json"] = plan.to_json().replace("memory://corpus/train", place).encode()
        assert gm.load_plan("memory://corpus/plan.json").fingerprint == plan.fingerprint


def test_a_shuffle_over_all_of_a_store_elsewhere_says_what_it_costs(large: Path) -> None:
    there, near = gm.open("memory://corpus"), gm.PlanOptions(locality=gm.Locality(block=64, window=2))
    with pytest.warns(UserWarning, match=r"about [0-9.]+ bytes are fetched for each byte.*Locality"):
        gm.Loader(gm.Plan(there, seq_len=64, batch_size=8), threads=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.Loader(gm.Plan(gm.open(large / "corpus"), seq_len=64, batch_size=8), threads=0)
        gm.Loader(gm.Plan(there, seq_len=64, batch_size=8, options=near), threads=0)
