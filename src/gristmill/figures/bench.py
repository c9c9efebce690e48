"""What this machine's loader delivers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gristmill.loader.loader import Loader
from gristmill.order.options import PlanOptions
from gristmill.order.plan import Plan
from gristmill.store.reader import Store

_THREADS = (0, 1, 2)


@dataclass(frozen=True)
class Asked:
    """What a loader is asked for: the shape of its batches, and the arrays beside `input_ids`."""

    seq_len: int
    batch_size: int
    cut: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delivered:
    """What it delivers with so many threads that read ahead."""

    threads: int
    tokens_per_second: float
    batches_per_second: float
    first_batch_seconds: float


def measured(store: Store, asked: Asked, seconds: float) -> list[Delivered]:
    """A loop that does nothing but take batches, for `seconds` with each number of threads."""
    return [_measured(store, asked, seconds, threads) for threads in _THREADS]


def _measured(store: Store, asked: Asked, seconds: float, threads: int) -> Delivered:
    began = time.perf_counter()
    options = PlanOptions(cut=asked.cut)
    plan = Plan({"store": store}, seq_len=asked.seq_len, batch_size=asked.batch_size, steps=10**9, options=options)
    loader = Loader(plan, keys=asked.keys, threads=threads)
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - began
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds or not count:
        next(batches)
        count += 1
    elapsed = time.perf_counter() - began
    loader.close()
    return Delivered(threads, count * asked.seq_len * asked.batch_size / elapsed, count / elapsed, first)
