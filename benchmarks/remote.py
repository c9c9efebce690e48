"""Loading from object storage: Gristmill beside obstore alone, mosaicml-streaming and litdata, from one server.

    python benchmarks/remote.py [--quick] [--only throughput|apart|peers|network] [--more]

Results go to benchmarks/results/remote.json and remote.md; about twelve minutes, and some more when it is run for the
first time, for what lies in the bucket. README.md says what is measured and how.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bucket.names import at
from bucket.report import markdown
from bucket.rounds import Case, Contest, as_data, measure, prepare, probe
from bucket.server import Bucket, bucket, on_cores, reach
from bucket.stores import PEER_FORMATS, WIDE, add_stores, small_corpus
from bucket.targets import EPOCHS, judge
from contenders.registry import Entry, Setting
from harness.client import BENCHMARKS, end_with_workers
from harness.corpus import Corpus
from harness.machine import facts, load
from harness.progress import Progress
from shaped_proxy import Shape, ShapedProxy

RESULTS = BENCHMARKS / "results"
PARTS = ("throughput", "apart", "peers", "network")
BLOCK_BYTES = 1 << 20
BLOCK, WINDOW = 256, 128  # samples of 4 KiB a block: 1 MiB; and 128 MiB of blocks are mixed at a time
RAW = {f"obstore alone, {threads} threads": threads for threads in (16, 32)}
OURS, UNCHECKED, LOCAL = "Loader", "Loader, sums off", "Loader, from disk"
FOUR_BYTES, RAW_FOUR_BYTES = "Loader, ids of four bytes", "ids of four bytes by obstore, 16 threads"
PLANNED = "the Loader's ranges by obstore, 16 threads"
SETTINGS = (Setting(0), Setting(2))
CONTENDERS = (
    Entry("gristmill", "gristmill_bucket", "gristmill", "blocks in a window", False, (Setting(0, threads=2),)),
    Entry(
        "mosaicml-streaming", "mosaic_bucket", "mosaicml-streaming", "shards and blocks", settings=SETTINGS, stubs=True
    ),
    Entry("litdata", "litdata_bucket", "litdata", "chunks, then inside a chunk", settings=SETTINGS),
)
# A far bucket behind a slow line, and one that is far and fast enough: a step of 50 ms takes 5.2 MB/s.
SLOW, FAR = Shape(bandwidth=20e6, latency=0.05), Shape(bandwidth=60e6, latency=0.05)
STEP_SECONDS = 0.05
TENTH = 80_000_000
TENTH_WINDOW = 48  # blocks: what the plan mixes must fit into a tenth of the data


@dataclass(frozen=True)
class Timing:
    """How often and how long."""

    rounds: int
    peer_rounds: int
    first_batches: int
    steps: int
    peer_seconds: float


FULL = Timing(rounds=7, peer_rounds=3, first_batches=5, steps=500, peer_seconds=20)
QUICK = Timing(rounds=3, peer_rounds=2, first_batches=3, steps=500, peer_seconds=8)


def main() -> int:
    """Measure, write the results, and print the report; 1 when something failed."""
    end_with_workers()
    parser = argparse.ArgumentParser(description="Compare loaders that read from object storage.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", choices=PARTS, help="measure this alone; the rest is that of the last run")
    parser.add_argument("--more", action="store_true", help="add these rounds to those of the last run")
    given, machine = parser.parse_args(), facts()
    timing, parts = QUICK if given.quick else FULL, [given.only] if given.only else PARTS
    corpus = Corpus(BENCHMARKS / "data")
    earlier = _earlier() if given.only or given.more else {}
    with Progress() as progress:
        with bucket(corpus.root / "bucket") as made:
            measured = _measure(made, corpus, timing, progress, parts)
        if "apart" in parts:
            measured |= _apart(corpus, timing, progress)
    for case, before in _pairs(measured, earlier) if given.more else ():
        case.figures[:0] = before.figures
    measured = earlier | measured
    results = {"machine": machine | {"load_after": load()}, "timing": asdict(timing)}
    results |= {group: as_data(cases) for group, cases in measured.items()} | {"targets": judge(measured)}
    report = markdown(results, measured)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "remote.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "remote.md").write_text(report)
    print(report)
    return int(any(case.error for cases in measured.values() for case in cases))


def _earlier() -> dict[str, list[Case]]:
    """What the last run measured."""
    results = json.loads((RESULTS / "remote.json").read_text())
    return {
        group: [Case(name, dict, figures) for name, figures in results[group].items()]
        for group in ("throughput", "apart", "peers", "peers_apart", "first_batch", "stalls", "fetched")
        if group in results
    }


def _pairs(measured: dict[str, list[Case]], earlier: dict[str, list[Case]]) -> Iterator[tuple[Case, Case]]:
    """Each case with that of the same name in an earlier run."""
    for group, cases in measured.items():
        known = {case.name: case for case in earlier.get(group, [])}
        yield from ((case, known[case.name]) for case in cases if case.name in known)


def _measure(
    made: Bucket, corpus: Corpus, timing: Timing, progress: Progress, parts: Collection[str]
) -> dict[str, list[Case]]:
    progress.say("making what lies in the bucket, once")
    corpus.make()
    small = small_corpus(corpus)
    folders = add_stores(made, corpus)
    for entry in CONTENDERS[1:]:
        prepare(entry, small)  # what fails here fails again in its rounds, and is told there
    for name in PEER_FORMATS:
        made.add(name, (small.root / name).rglob("*.*"), small.root / name)
    progress.say("compiling, where nothing is kept from an earlier run")
    probe("load", paths=[str(folders["small"] / "train")], block=BLOCK, window=WINDOW, steps=1)
    found = {}
    if "throughput" in parts:
        found["throughput"] = measure(_throughput(folders), timing.rounds, progress.say)
    if "peers" in parts:
        found["peers"] = measure(_contests(small, timing), timing.peer_rounds, progress.say)
    return found | (_shaped(made, timing, progress) if "network" in parts else {})


def _apart(corpus: Corpus, timing: Timing, progress: Progress) -> dict[str, list[Case]]:
    """The same with the server on one half of the cores and all readers on the other, as buckets are elsewhere."""
    cores = sorted(os.sched_getaffinity(0))
    half = (len(cores) + 1) // 2
    if half == len(cores):
        progress.say("one core alone: the server cannot have one of its own")
        return {}
    with bucket(corpus.root / "bucket", set(cores[:half])) as made, on_cores(set(cores[half:])):
        folders, small = add_stores(made, corpus), small_corpus(corpus)
        cases = [case for case in _throughput(folders) if case.name in (*RAW, PLANNED, OURS)]
        return {
            "apart": measure(cases, timing.rounds, progress.say),
            "peers_apart": measure(_contests(small, timing), timing.peer_rounds, progress.say),
        }


def _throughput(folders: dict[str, Path]) -> list[Case]:
    """The same blocks by obstore alone, by the loader, and by the loader without what it does beside."""
    store = folders["large"]
    bare = sorted(path.name for path in (store / "train").glob("*.bin"))
    paths = {
        OURS: [at("large/train")],
        FOUR_BYTES: [at(f"{WIDE}/train")],
        UNCHECKED: [at(f"large/train/{name}") for name in bare],
        LOCAL: [str(store / "train")],
    }
    raw = [
        Case(name, lambda threads=threads: probe("read", prefix="large/train", block=BLOCK_BYTES, threads=threads))  # type: ignore[misc]
        for name, threads in RAW.items()
    ]
    raw.append(Case(PLANNED, lambda: probe("read", prefix="large/train", block=BLOCK, threads=16, window=WINDOW)))
    raw.append(Case(RAW_FOUR_BYTES, lambda: probe("read", prefix=f"{WIDE}/train", block=BLOCK_BYTES, threads=16)))
    return raw + [
        Case(name, lambda where=where, block=block: probe("load", paths=where, block=block, window=WINDOW, ready=True))  # type: ignore[misc]
        for name, where in paths.items()
        for block in [BLOCK // 2 if name == FOUR_BYTES else BLOCK]
    ]


def _contests(corpus: Corpus, timing: Timing) -> list[Case]:
    contests = [Contest(e, setting, corpus, timing.peer_seconds) for e in CONTENDERS for setting in e.settings]
    return [Case(str(contest), contest.run) for contest in contests]


def _shaped(made: Bucket, timing: Timing, progress: Progress) -> dict[str, list[Case]]:
    """What is measured through a network of a given shape."""
    with ShapedProxy(made.port) as proxy:
        reach(proxy.address)

        def first() -> dict[str, Any]:
            proxy.begin(SLOW)
            return probe("load", paths=[at("many/train")], block=BLOCK, window=WINDOW, steps=1)

        def stalls() -> dict[str, Any]:
            proxy.begin(FAR)
            return probe("load", paths=[at("large/train")], block=BLOCK, window=WINDOW, steps=timing.steps,
                         step_seconds=STEP_SECONDS)  # fmt: skip

        def fetched(epochs: int) -> dict[str, Any]:
            proxy.begin(Shape())
            with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as cache:
                figures = probe("load", paths=[at("large/train")], block=BLOCK, window=TENTH_WINDOW, cache=cache,
                                cache_bytes=TENTH, epochs=epochs)  # fmt: skip
            return figures | asdict(proxy.counts())

        cached = [Case("a cache of a tenth", lambda: fetched(1)), Case("ten epochs", lambda: fetched(EPOCHS))]
        try:
            return {
                "first_batch": measure([Case("10,000 shards", first)], timing.first_batches, progress.say),
                "stalls": measure([Case("steps of 50 ms", stalls)], 1, progress.say),
                "fetched": measure(cached, 1, progress.say),
            }
        finally:
            reach(made.address)


if __name__ == "__main__":
    sys.exit(main())
