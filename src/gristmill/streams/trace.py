"""Which documents were in a step of a stream: its rows are made once more, with the ids of what they hold.

A stream's order depends on its documents, so no arithmetic leads to a step: a state that was kept at it or before does.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.order.plan import Plan
from gristmill.order.trace import TraceRow, sample_rows
from gristmill.streams.cuts import Stretch

# The id and the source of a document.
Named = dict[str, str]
if TYPE_CHECKING:
    from gristmill.streams.assembly import Fed
    from gristmill.streams.stores import Picked
    from gristmill.streams.stream import Batches


def trace(stream: Batches, step: int, state: Mapping[str, object] | None) -> list[TraceRow]:
    """See `Batches.trace`."""
    with stream.loader() as loader:
        if state is not None:
            loader.load_state_dict(state)
        if step < loader.step:
            raise ConfigError(
                f"This state is of step {loader.step:,}, which comes after step {step:,}: give one that was kept at "
                "it or before, or none, and all steps are made again from the first one on."
            )
        batches = iter(loader)
        while loader.step < step and next(batches, None) is not None:
            pass
        if loader.step == step and (found := loader.trace()):
            return found
        next(iter(loader), None)  # which says why there is nothing, where there is a reason
        raise ConfigError(f"There is no step {step:,}: this stream ends after {loader.step:,} steps.", arguments="step")


def traced(stream: Batches, rows: range, fed: Fed, picked: Picked | None) -> list[TraceRow]:
    """The documents of some rows of a step: of those that lanes have fed, and of those that were picked from stores.

    In a mix they have the mix's names, else those of their own sources, of which a recipe's stream may have several.
    """
    found = list(_of_lanes(fed, rows, stream.names if len(stream.names) > 1 else None))
    if picked is not None and stream.plan is not None:
        found += _of_stores(picked, rows, stream.plan, stream.first.seq_len)
    return sorted(found, key=lambda traced: traced.row)


def _of_lanes(fed: Fed, rows: range, names: tuple[str, ...] | None) -> Iterator[TraceRow]:
    fed_rows = zip(fed.rows.tolist(), fed.sources.tolist(), strict=True)
    spans = (each for stretch in fed.stretches for each in _spans(stretch))
    for (row, k), each in zip(fed_rows, spans, strict=True):
        for document, start, end in each:
            name = names[k] if names else document["source"]
            yield TraceRow(rows[row], name, document["id"], start, end)


def _spans(stretch: Stretch) -> Iterator[list[tuple[Named, int, int]]]:
    """Of each row of a stretch (document, start, end), in the row's order, positions inside the document."""
    starts = np.cumsum([0, *(len(block.tokens) for block in stretch.blocks)])
    edges = [block.offsets[:-1] + start for block, start in zip(stretch.blocks, starts.tolist(), strict=False)]
    bounds = np.concatenate([*edges, starts[-1:]]).tolist()
    named = [row for block in stretch.blocks if block.named is not None for row in block.named.to_pylist()]
    for row in range(stretch.first, stretch.stop):
        positions, lengths, *_ = stretch.rows.part(row, row + 1)
        pieces = zip(positions.tolist(), lengths.tolist(), strict=True)
        yield [span for at, length in pieces for span in _of_piece(named, bounds, at, at + length)]


def _of_piece(named: list[Named], bounds: list[int], at: int, end: int) -> Iterator[tuple[Named, int, int]]:
    document = bisect.bisect_right(bounds, at) - 1
    while at < end:
        stop = min(bounds[document + 1], end)
        yield named[document], at - bounds[document], stop - bounds[document]
        at, document = stop, document + 1


def _of_stores(picked: Picked, rows: range, plan: Plan, seq_len: int) -> Iterator[TraceRow]:
    for row, (k, _, sample) in zip(picked.rows.tolist(), picked.samples.tolist(), strict=True):
        yield from sample_rows(plan, rows[row], k, sample, seq_len)
