"""What this machine delivers."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.bench import Asked, Delivered
from gristmill.show.terminal import table


def show_bench(store: str, asked: Asked, rows: Sequence[Delivered]) -> None:
    """What was measured, as a table."""
    columns = ("threads", "million tokens/s", "batches/s", "first batch (ms)")
    table(f"{store}: {asked.cut} {asked.seq_len} x {asked.batch_size}", columns, [
        (row.threads, round(row.tokens_per_second / 1e6, 1), round(row.batches_per_second, 1),
         round(row.first_batch_seconds * 1e3, 1)) for row in rows
    ])  # fmt: skip
