"""One run over a bucket in a process of its own: what to do comes as JSON, what was measured goes to stdout as JSON.

python -m bucket.probe '["load", {"paths": ["s3://corpus/large/train"], "block": 256, "window": 64}]'
"""

import importlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

import gristmill as gm
from bucket.names import at
from bucket.server import client
from gristmill.loader.demand import Demand
from gristmill.testing import tiny_store
from harness.corpus import BATCH_SIZE, EOS, SEED, SEQ_LEN
from harness.processes import cpu_seconds

_SAMPLE_SECONDS = 0.1
Figures = dict[str, Any]


def load(
    paths: list[str],
    *,
    block: int,
    window: int,
    step_seconds: float = 0.0,
    steps: int | None = None,
    epochs: int = 1,
    ready: bool = False,
    **storage: Any,
) -> Figures:
    """Some epochs, or so many steps, each of which trains for `step_seconds`; `storage` says how they are reached.

    `ready`: what a first batch imports and loads of compiled code is there already, so that reading alone is timed.
    A folder is a store; several paths are bare token files, which have no sums and are not checked.
    """
    if ready:
        _warm_up()
    if storage:
        gm.storage("s3://", **storage)
    began = time.perf_counter()
    store = gm.open(paths[0]) if len(paths) == 1 else gm.open(paths, dtype="uint16", eos=EOS)
    plan = _plan(store, block, window, steps)
    if epochs > 1:
        plan = _plan(store, block, window, epochs * len(plan))
    opened, cpu = time.perf_counter(), cpu_seconds(os.getpid())
    with _memory() as memory, gm.Loader(plan) as loader:
        waits = list(_trained(iter(loader), step_seconds))
        seconds = time.perf_counter() - opened
        stats = loader.stats()
    return {
        "open_seconds": opened - began,
        "first_seconds": opened - began + waits[0],
        "seconds": seconds,
        "waited_seconds": sum(waits[1:]),
        "bytes": len(waits) * BATCH_SIZE * SEQ_LEN * store.dtype.itemsize,
        "cpu_seconds": cpu_seconds(os.getpid()) - cpu,
        **memory,
        "stats": stats,
    }


def _plan(store: gm.Store, block: int, window: int, steps: int | None = None) -> gm.Plan:
    """So many steps, or an epoch, of a store in windows of blocks."""
    options = {"locality": {"block": block, "window": window}}
    return gm.Plan(store, seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=SEED, steps=steps, options=options)


def _warm_up() -> None:
    """Serve a batch of a store on disk, which is too small to need the code that checks blocks."""
    importlib.import_module("gristmill.core.kernels.xxh3")
    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder))
        plan = gm.Plan(store, seq_len=16, batch_size=4, options={"locality": {"block": 2, "window": 2}})
        with gm.Loader(plan) as loader:
            next(iter(loader))


def _trained(batches: Iterator[Any], step_seconds: float) -> Iterator[float]:
    """How long each batch was waited for, by a loop that sleeps where another would train."""
    while True:
        asked = time.perf_counter()
        if next(batches, None) is None:
            return
        yield time.perf_counter() - asked
        if step_seconds:
            time.sleep(step_seconds)


def read(prefix: str, *, block: int, threads: int, window: int | None = None) -> Figures:
    """obstore alone: all token files below a prefix in blocks of so many bytes, in random order, dropped at once.

    With a `window` they are the very ranges of a plan's blocks of so many samples, in its order.
    """
    store = client(os.environ["AWS_ENDPOINT_URL"])
    ranges = _blocks(store, prefix, block) if window is None else _planned(prefix, block, window)
    began, cpu = time.perf_counter(), cpu_seconds(os.getpid())
    with ThreadPoolExecutor(threads) as pool:
        size = sum(pool.map(lambda one: len(obstore.get_range(store, one[0], start=one[1], length=one[2])), ranges))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": size, "cpu_seconds": cpu_seconds(os.getpid()) - cpu}


def _blocks(store: S3Store, prefix: str, block: int) -> list[tuple[str, int, int]]:
    """Object, first byte and size of the blocks of all token files below a prefix."""
    files = [entry for page in obstore.list(store, prefix) for entry in page if entry["path"].endswith(".bin")]
    ranges = [
        (each["path"], at, min(block, each["size"] - at)) for each in files for at in range(0, each["size"], block)
    ]
    random.Random(SEED).shuffle(ranges)
    return ranges


def _planned(prefix: str, block: int, window: int) -> list[tuple[str, int, int]]:
    """The same of what the loader fetches in an epoch: its blocks run through all shards and begin anywhere in them."""
    store = gm.open(at(prefix))
    plan = _plan(store, block, window)
    shards, starts, ends = Demand(plan, labels=False).of(plan.segments[0], plan.samples_of_steps(0, len(plan)))
    keys = [store.files.path(shard).removeprefix(at("")) for shard in range(len(store.files))]
    return [
        (keys[shard], first, end - first)
        for shard, first, end in zip(shards.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]


@contextmanager
def _memory() -> Iterator[dict[str, list[int]]]:
    """Bytes of this process while the block runs: `memory` that is resident, and `anonymous`, without pages of files.

    The kernel takes pages of files back when it likes: those of libraries, and those of a cache's files that are read.
    """
    samples: dict[str, list[int]] = {"memory": [], "anonymous": []}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
            sizes = {line[0]: int(line[1]) << 10 for line in lines if line[0] in ("VmRSS:", "RssAnon:")}
            samples["memory"].append(sizes["VmRSS:"])
            samples["anonymous"].append(sizes["RssAnon:"])

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def main() -> None:
    name, arguments = json.loads(sys.argv[1])
    print(json.dumps({"load": load, "read": read}[name](**arguments)))


if __name__ == "__main__":
    main()
