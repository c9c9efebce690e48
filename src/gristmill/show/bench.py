"""What this machine delivers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from gristmill.loader.loader import Loader
from gristmill.order.options import PlanOptions
from gristmill.order.plan import Plan
from gristmill.show.terminal import table
from gristmill.store.reader import Store


def measured(store: Store, chosen: argparse.Namespace) -> list[dict[str, float]]:
    """Tokens/s and the time to the first batch, for 0, 1 and 2 threads."""
    keys = tuple(key for key in chosen.keys.split(",") if key)
    return [_measure(store, chosen, keys, threads) for threads in (0, 1, 2)]


def show_bench(store: Store, chosen: argparse.Namespace, rows: Sequence[dict[str, float]]) -> None:
    """What was measured, as a table."""
    title = f"{store.describe()}: {chosen.cut} {chosen.seq_len} x {chosen.batch_size}"
    columns = ("threads", "million tokens/s", "batches/s", "first batch (ms)")
    table(title, columns, [_bench_cells(row) for row in rows])


def _bench_cells(row: dict[str, float]) -> list[Any]:
    return [
        row["threads"],
        round(row["tokens_per_second"] / 1e6, 1),
        round(row["batches_per_second"], 1),
        round(row["first_batch_seconds"] * 1e3, 1),
    ]


def _measure(store: Store, chosen: argparse.Namespace, keys: tuple[str, ...], threads: int) -> dict[str, float]:
    """One row of `measured`: a loop that does nothing but take batches, for `chosen.seconds`."""
    began = time.perf_counter()
    options = PlanOptions(cut=chosen.cut)
    plan = Plan({"store": store}, seq_len=chosen.seq_len, batch_size=chosen.batch_size, steps=10**9, options=options)
    loader = Loader(plan, keys=keys, threads=threads)
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - began
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < chosen.seconds or not count:
        next(batches)
        count += 1
    elapsed = time.perf_counter() - began
    loader.close()
    return {
        "threads": threads,
        "tokens_per_second": count * chosen.seq_len * chosen.batch_size / elapsed,
        "batches_per_second": count / elapsed,
        "first_batch_seconds": first,
    }
