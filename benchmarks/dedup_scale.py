"""Dedup of many short documents in bounded memory: exact, then near, from texts to evidence.

Documents are made from a seed: 20 to 80 words of a Zipf-like vocabulary; one in 20 is a copy of an earlier one, one in
10 an edited copy (the first word replaced). Making them is not measured. Memory is the resident memory of the process
tree, sampled five times a second; pages of mapped files, which the kernel may take back, are counted too.

    python benchmarks/dedup_scale.py                                      20 million documents, 4 GB, 2 workers
    python benchmarks/dedup_scale.py --documents 2000000 --memory 1GB
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.progress import Quiet
from gristmill.curate.dedup.exact import equal_documents
from gristmill.curate.dedup.near import Near
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import text_digests
from gristmill.engine.local import LocalEngine
from gristmill.stages.near import NearSearch, SignJob
from gristmill.stages.relation import Relation
from gristmill.stages.work import Query, Workshop

Numbers = np.ndarray[Any, Any]

HERE = Path(__file__).parent
DOCUMENTS_PER_UNIT, BATCH = 200_000, 10_000
VOCABULARY = 50_000
SHARED_MEMORY = 0.5
UNITS_OF_MEMORY = {"MB": 10**6, "GB": 10**9, "MIB": 1 << 20, "GIB": 1 << 30}


@functools.cache
def vocabulary() -> pa.Array:
    """Words of 3 to 9 letters."""
    rng = np.random.default_rng(0)
    letters = rng.integers(ord("a"), ord("z") + 1, (VOCABULARY, 9), dtype=np.uint8)
    sizes = rng.integers(3, 10, VOCABULARY)
    return pa.array([row[:size].tobytes().decode() for row, size in zip(letters, sizes, strict=True)])


def uniform(numbers: Numbers) -> Numbers:
    """A fraction in [0, 1) of each number: SplitMix64's finaliser."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(11)) / 2.0**53


def texts_of(numbers: Numbers) -> pa.Array:
    """Documents by number: new, a copy, or an edited copy of one up to 100,000 before it."""
    kinds = uniform(numbers + (1 << 50))
    back = (uniform(numbers + (2 << 50)) * 100_000).astype(np.int64)
    origins = np.where((kinds < 0.15) & (numbers > 100_000), numbers - back, numbers)
    sizes = 20 + (uniform(origins + (3 << 50)) * 61).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
    words = (VOCABULARY ** uniform(np.repeat(origins, sizes) * 128 + places)).astype(np.int64)
    edited = np.flatnonzero((kinds >= 0.05) & (kinds < 0.15))
    words[ends[edited]] = (uniform(numbers[edited] + (4 << 50)) * VOCABULARY).astype(np.int64)
    lists = pa.LargeListArray.from_arrays(ends, vocabulary().take(pa.array(words)))
    return pc.binary_join(lists, " ").cast(pa.large_string())


@dataclass(frozen=True)
class Unit:
    """The files of one unit."""

    number: int
    documents: int
    folder: Path

    @property
    def texts(self) -> Path:
        return self._file("texts")

    @property
    def hashes(self) -> Path:
        return self._file("hashes")

    def _file(self, what: str) -> Path:
        return self.folder / f"{what}-{self.number:05d}.parquet"


def make(unit: Unit) -> None:
    """Write the texts of a unit."""
    schema = pa.schema([("doc", pa.int64()), ("id", pa.string()), ("source", pa.string()), ("text", pa.large_string())])
    first = unit.number * DOCUMENTS_PER_UNIT
    with pq.ParquetWriter(unit.texts, schema, compression="zstd") as writer:
        for begin in range(0, unit.documents, BATCH):
            rows = range(begin, min(begin + BATCH, unit.documents))
            columns = [
                pa.array([unit.number << 32 | row for row in rows]),
                pa.array([str(first + row) for row in rows]),
                pa.array(["synthetic"] * len(rows)),
                texts_of(np.arange(first + rows.start, first + rows.stop)),
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def hashed(documents: Documents) -> pa.RecordBatch:
    """What exact dedup compares."""
    high, low = text_digests(documents)
    keys = np.zeros(len(documents), np.int64)
    return pa.record_batch({"doc": documents.batch.column("doc"), "keep_key": keys, "hash_hi": high, "hash_lo": low})


def narrow(unit: Unit) -> int:
    """Hash a unit's documents, as the narrow pass of a run does; returns the bytes of text."""
    hashes, size = [], 0
    for batch in pq.ParquetFile(unit.texts).iter_batches(BATCH):
        documents = Documents(batch)
        hashes.append(hashed(documents))
        size += int(documents.offsets[-1] - documents.offsets[0])
    pq.write_table(pa.Table.from_batches(hashes), unit.hashes, compression="none")
    return size


def tree_bytes(root: int) -> int:
    """Resident memory of a process and its descendants."""
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting.extend(map(int, (task / "children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


class Account:
    """Seconds and peak memory of each stage."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Watch what happens inside."""
        peak, done = [tree_bytes(os.getpid())], threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                peak[0] = max(peak[0], tree_bytes(os.getpid()))

        thread = threading.Thread(target=watch)
        begin = time.perf_counter()
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        self.rows[name] = {"seconds": round(time.perf_counter() - begin, 1), "peak_megabytes": round(peak[0] / 1e6)}
        print(f"{name:12} {self.rows[name]['seconds']:8.1f} s  {self.rows[name]['peak_megabytes']:6.0f} MB", flush=True)


def measure(documents: int, memory: int, workers: int, folder: Path) -> dict[str, object]:
    """All stages; the query engine gets half of `memory`, the rest is for the processes."""
    sizes = [min(DOCUMENTS_PER_UNIT, documents - begin) for begin in range(0, documents, DOCUMENTS_PER_UNIT)]
    units = [Unit(i, size, folder) for i, size in enumerate(sizes)]
    engine = LocalEngine(workers, int(memory * SHARED_MEMORY), folder / "scratch")
    work, account = Workshop(engine, folder, Quiet()), Account()
    try:
        with account.stage("make"):
            list(engine.map(make, [unit for unit in units if not unit.texts.exists()]))
        with account.stage("narrow"):
            size = sum(engine.map(narrow, units))
        with account.stage("exact"):
            hashes = Relation(tuple(unit.hashes for unit in units), "hashes")
            exact = work.ask(Query("exact", equal_documents(dropped=False), {"documents": [hashes]}))
        with account.stage("sign"):
            jobs = [SignJob(texts=unit.texts, upstream="", dropped=(exact,), near=Near(), priorities={},
                            number=unit.number, folder=folder / "sign") for unit in units]  # fmt: skip
            search = NearSearch(work, Near(), jobs, work.complete(jobs, "signing"), (exact,))
        with account.stage("near"):
            near = search.evidence()
    finally:
        engine.close()
    peak = max(row["peak_megabytes"] for row in account.rows.values())
    return {
        "documents": documents,
        "text_megabytes": round(size / 1e6),
        "memory_megabytes": memory // 10**6,
        "workers": workers,
        "stages": account.rows,
        "peak_megabytes": peak,
        "within_memory": peak * 10**6 <= memory,
        "exact_dropped": exact.rows,
        "near_candidates": search.candidates().rows,
        "near_dropped": near.rows,
        "alarms": search.alarms(),
    }


def memory_of(text: str) -> int:
    """Bytes of '4GB', '512MiB'."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    return int(float(digits) * UNITS_OF_MEMORY[text[len(digits) :].strip().upper()])


def main() -> int:
    """Measure, print, and write benchmarks/results/dedup_scale.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000_000)
    parser.add_argument("--memory", type=memory_of, default=memory_of("4GB"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="a folder to keep and to use again; a temporary one by default")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "dedup_scale.json")
    given = parser.parse_args()
    folder = given.work or Path(tempfile.mkdtemp(prefix="gristmill-dedup-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = measure(given.documents, given.memory, given.workers, folder)
    finally:
        if given.work is None:
            shutil.rmtree(folder)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0 if report["within_memory"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
