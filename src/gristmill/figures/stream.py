"""The first batches of a stream: its rows, how fast they come, what the steps before them dropped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import numpy as np

from gristmill.curate.ledger import READ
from gristmill.figures.dropped import Dropped, DroppedGroup, DroppedRow
from gristmill.loader.fill import Batch
from gristmill.store.manifest import FunnelRow
from gristmill.streams.loader import StreamLoader
from gristmill.streams.stream import Batches
from gristmill.streams.units import Units

# Rows that are shown of the first batch, and characters of each; enough to see what a model would.
_ROWS, _TEXT = 4, 2_000


@dataclass(frozen=True)
class StreamRow:
    """A row of the first batch: the file that its unit is of, its tokens, its documents or parts of some, its text."""

    row: int
    source: str
    file: str
    tokens: int
    documents: int
    text: str


@dataclass(frozen=True)
class StreamLook:
    """What was served in how long, the first rows, and what steps left; `dropped` has examples if they were asked for.

    `ended`: the files held no more. Tokens a second are those after the first batch, where there are more; documents
    and bytes a second are what was read from the beginning on, ahead of what was served.
    """

    files: int
    bytes: int
    units: int
    steps: int
    ended: bool
    first_batch_seconds: float
    tokens_per_second: float
    documents_per_second: float
    read_bytes_per_second: float
    padded_share: float
    truncated_tokens: int
    unreadable: int
    unreadable_first: Sequence[str]
    funnel: Sequence[FunnelRow]
    dropped: Dropped
    rows: Sequence[StreamRow]


def look(stream: Batches, steps: int, examples: int) -> StreamLook:
    """Serve `steps` batches of one epoch, or all there are, and say what came of them."""
    with stream.loader(keys=("attention_mask", "doc_ids"), examples=examples) as loader:
        began = time.perf_counter()
        batches = iter(loader)
        rows = _rows(stream, next(batches, None))
        first = time.perf_counter() - began
        ended = sum(1 for _ in zip(range(steps - 1), batches, strict=False)) < steps - 1 or not rows
        return _looked(stream, loader, first, ended, rows)


def _rows(stream: Batches, batch: Batch | None) -> list[StreamRow]:
    """The first rows that are no padding."""
    if batch is None:
        return []
    return [_row(stream, batch, int(i)) for i in np.flatnonzero(batch["sample_ids"][:, 0] >= 0)[:_ROWS]]


def _row(stream: Batches, batch: Batch, i: int) -> StreamRow:
    there, (_, _, unit) = batch["attention_mask"][i] > 0, batch["sample_ids"][i].tolist()
    ids = batch["input_ids"][i][there]
    file = _files(stream)[unit].parts[0].file
    documents, text = len(np.unique(batch["doc_ids"][i][there])), stream.first.encoder.decode(ids[:_TEXT])
    return StreamRow(i, file.source, file.name, len(ids), documents, text)


def _files(stream: Batches) -> Units:
    """The units of a stream that a command named by its files."""
    return cast(Units, stream.units[0])


class _Stats(TypedDict):
    """What is read of a loader's stats."""

    seconds: float
    tokens: int
    padded_tokens: int
    truncated_tokens: int
    after: Mapping[str, tuple[int, int]]
    dropped: Mapping[str, Mapping[str, int]]
    unreadable: int
    unreadable_first: Sequence[str]


def _looked(stream: Batches, loader: StreamLoader, first: float, ended: bool, rows: Sequence[StreamRow]) -> StreamLook:
    stats, units = cast(_Stats, loader.stats()), _files(stream)
    documents, read = stats["after"].get(READ, (0, 0))
    seconds, warm = stats["seconds"] or 1.0, loader.step > 1
    rate = stats["tokens"] * (1 - warm / loader.step) / (seconds - first * warm) if loader.step else 0.0
    return StreamLook(
        len(units.files), sum(units.sizes), len(units), loader.step, ended, first,
        rate, documents / seconds, read / seconds,
        stats["padded_tokens"] / max(stats["tokens"], 1), stats["truncated_tokens"],
        stats["unreadable"], stats["unreadable_first"], _funnel(stats), _dropped(stats, loader), rows,
    )  # fmt: skip


def _funnel(stats: _Stats) -> list[FunnelRow]:
    """What each step left, as a store's funnel has it, of all sources together."""
    return [
        {"stage": step, "source": "all", "documents": documents, "bytes": size,
         "reasons": dict(stats["dropped"].get(step, {}))}
        for step, (documents, size) in stats["after"].items()
    ]  # fmt: skip


def _dropped(stats: _Stats, loader: StreamLoader) -> Dropped:
    """Documents by rule and reason, the commonest first, each with its examples."""
    counts = Counter({(rule, why): n for rule, reasons in stats["dropped"].items() for why, n in reasons.items()})
    shown = cast(list[DroppedRow], loader.dropped())
    groups = [DroppedGroup(rule, why, count, {}, [row for row in shown if (row["rule"], row["reason"]) == (rule, why)])
              for (rule, why), count in counts.most_common()]  # fmt: skip
    return Dropped(counts.total(), True, groups)
