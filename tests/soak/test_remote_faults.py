"""Thousands of faults between a loader and its bucket: each is passed over or told, and no batch is another one."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.places.retrying import Patience
from s3_server import KEY, SECRET

# How often each is chosen; a slow body costs a whole time-out.
FAULTS = {"500": 8, "503": 8, "429": 8, "later": 4, "cut": 10, "half": 10, "shorter": 10, "longer": 10,
          "elsewhere": 10, "flip": 10, "expired": 4, "403": 1, "slow": 0.5}  # fmt: skip
STEPS, SEQ_LEN, ROWS = 40, 64, 8
LIMITS = {"timeout": 1.0, "deadline": 60.0}
SECONDS = 300
OPTIONS: list[dict[str, Any]] = [
    {"cut": "chunk"}, {"cut": "window"}, {"cut": "pad"}, {"cut": "pack"}, {"locality": {"block": 16, "window": 8}},
]  # fmt: skip


class Faults:
    """Which requests fail and how, by a seed; at least one of three passes, as on a very bad day."""

    def __init__(self, seed: int, share: float, without: tuple[str, ...] = ()) -> None:
        self._rng, self._share, self._lock = random.Random(seed), share, threading.Lock()
        self._kinds = [kind for kind in FAULTS if kind not in without]

    def __call__(self, number: int, method: str) -> str | None:
        with self._lock:
            if self._rng.random() >= self._share:
                return None
            return self._rng.choices(self._kinds, [FAULTS[kind] for kind in self._kinds])[0]


@pytest.fixture(scope="module", params=["none", "zstd"])
def stored(tmp_path_factory: Any, make_store: Any, upload: Any, request: pytest.FixtureRequest) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("faulty") / request.param
    rng = np.random.default_rng(1)
    documents = [rng.integers(0, 50_000, length).tolist() for length in rng.integers(100, 8000, 120)]
    make_store(root, documents, tokens_per_shard=100_000, compression=request.param)
    gm.index(gm.open(root), seq_len=SEQ_LEN)
    return root, upload(root, f"faulty/{request.param}")


@pytest.fixture
def impatient(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may take a second and the next try comes soon, so that 10,000 of them do not take a day."""
    monkeypatch.setattr(Patience, "wait", lambda self, tried: random.uniform(0, 0.01 * 2 ** min(tried, 6)))
    monkeypatch.setenv("GRISTMILL_STORAGE", "")  # which is what it was, afterwards
    gm.storage("s3://corpus", **LIMITS)


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What work gives, unless it hangs."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(seconds)
    finally:
        pool.shutdown(wait=False)


def clear(error: gm.GristmillError, proxy: Any) -> str:
    """What is told: one line that names what lies in the bucket, and neither keys nor the address that was asked."""
    said = [str(error), repr(error), str(error.__cause__), repr(error.__cause__)]
    hidden = (KEY, SECRET, proxy.address, f":{proxy.server_port}", "Signature")
    assert "s3://corpus" in said[0] and "\n" not in said[0], said
    assert not any(word in text for word in hidden for text in said), said
    return said[0]


def plan_of(path: Path | str, options: dict[str, Any]) -> gm.Plan:
    return gm.Plan(gm.open(path), seq_len=SEQ_LEN, batch_size=ROWS, steps=STEPS, options=options)


def batches(path: Path | str, options: dict[str, Any], threads: int, first: int = 0) -> Iterator[dict[str, Any]]:
    loader = gm.Loader(plan_of(path, options), keys=("labels", "doc_ids"), threads=threads)
    loader.step = first
    return iter(loader)


def served_despite(faults: Faults, there: str, options: dict[str, Any], threads: int, proxy: Any) -> Any:
    """All batches, and how many errors were told on the way: after each the run goes on at its step."""
    found: list[dict[str, Any]] = []
    told: list[str] = []
    while len(found) < STEPS:
        assert len(told) < 400, f"it does not get on: {Counter(told)}"
        try:
            for batch in batches(there, options, threads, len(found)):
                found.append({key: np.array(value) for key, value in batch.items()})
        except gm.GristmillError as error:
            told.append(clear(error, proxy))
    return found, told


def test_every_batch_is_that_from_disk_or_an_error_that_names_the_object(
    tmp_path: Path, stored: tuple[Path, str], proxy: Any, impatient: None, soak: bool, record: Path | None
) -> None:
    """Every other round goes through an empty cache on disk."""
    here, there = stored
    expected = [list(batches(here, options, 0)) for options in OPTIONS]
    wanted, ends, injected = (5500, 0, Counter[str]()) if soak else (80, 0, Counter[str]())
    for number in itertools.count():
        options, threads = number % len(OPTIONS), (0, 2)[number // len(OPTIONS) % 2]
        faults = Faults(number, share=(0.1, 0.25, 0.4)[number % 3])
        kept = {"cache": str(tmp_path / f"{number}"), "cache_bytes": "10MB"} if number % 2 else {}
        gm.storage("s3://corpus", **LIMITS, **kept)
        proxy.begin(faults)
        found, told = within(SECONDS, lambda o=options, f=faults, t=threads: served_despite(  # type: ignore[misc]
            f, there, OPTIONS[o], t, proxy
        ))  # fmt: skip
        injected.update(proxy.injected)
        ends += len(told)
        proxy.begin()
        for step, (ours, theirs) in enumerate(zip(expected[options], found, strict=True)):
            assert all(np.array_equal(ours[key], theirs[key]) for key in ours), f"round {number}, step {step}"
        if injected.total() >= wanted:
            break
    if record:
        figures = {"faults": injected.total(), "rounds": number + 1, "told": ends, "wrong": 0, **injected}
        (record / f"remote-faults-{here.name}.json").write_text(json.dumps(figures) + "\n")


def sources(folder: Path) -> Path:
    """The same documents as JSONL, plain and packed, and as Parquet."""
    folder.mkdir()
    rows = [{"id": f"{i}", "text": f"text {i} of some words " * (5 + i % 40)} for i in range(1500)]
    lines = ["".join(json.dumps(row) + "\n" for row in rows[part::3]).encode() for part in range(3)]
    (folder / "a.jsonl").write_bytes(lines[0])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines[1]))
    pq.write_table(pa.Table.from_pylist(rows[2::3]), folder / "c.parquet", row_group_size=50)
    return folder


def test_text_is_read_whole_or_not_at_all(
    tmp_path: Path, upload: Any, proxy: Any, impatient: None, soak: bool, record: Path | None
) -> None:
    """Text has no sums, so that a flipped bit cannot be seen in it: all else can."""
    there = upload(sources(tmp_path / "raw"), "faulty-text")

    def made(out: Path, inputs: str) -> Any:
        source: Any = {"name": "web", "paths": [inputs]}
        return gm.prepare({"out": str(out), "sources": [source], "tokenizer": "byte"}, progress=False).splits

    expected = made(tmp_path / "here", str(tmp_path / "raw"))
    injected, told, rounds = Counter[str](), 0, 0
    while injected.total() < (1500 if soak else 25):
        out = tmp_path / f"there-{rounds}"
        proxy.begin(Faults(rounds, share=(0.2, 0.5)[rounds % 2], without=("flip",)))
        for _ in range(50):
            try:
                assert within(SECONDS, lambda o=out: made(o, there)) == expected  # type: ignore[misc]
                break
            except gm.GristmillError as error:
                told += bool(clear(error, proxy))
        else:
            pytest.fail("it does not get on")
        injected.update(proxy.injected)
        rounds += 1
    if record:
        figures = {"faults": injected.total(), "rounds": rounds, "told": told, "wrong": 0, **injected}
        (record / "remote-faults-text.json").write_text(json.dumps(figures) + "\n")
