"""A step: the rows of its batch, each with its documents, mask and text, and its loss where it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import ConfigError
from gristmill.loader.fill import Batch
from gristmill.order.plan import Plan
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import notes, paragraph
from gristmill.store.reader import Store
from gristmill.view.parts import Params, entry, form, link, number, pager, whole
from gristmill.view.subject import Subject
from gristmill.view.tokens import PART, coloured, pieces

_ROWS, _TOKENS = 16, 256
_COLOURS, _LEVELS = 6, 7


@dataclass(frozen=True)
class _Part:
    """Tokens [start, end) of a document, as a row holds them."""

    number: int
    id: str
    start: int
    end: int
    excluded: bool


@dataclass(frozen=True)
class _Row:
    """A row of a batch: its source by number, its documents in order, and its arrays."""

    row: int
    source: int
    documents: Sequence[_Part]
    ids: npt.NDArray[Any]
    mask: npt.NDArray[np.bool_]
    documents_of: npt.NDArray[Any]


def step_page(subject: Subject, params: Params) -> str:
    """Some rows of a step, those around `row` if it is given."""
    plan, n = _plan(subject), number(params, "n", 0)
    turn = _turn(plan, n)
    if plan.skips.covers(n):
        return whole(subject, f"Step {n:,}", joined([turn, notes([f"The plan skips step {n:,}."])]), here="step")
    samples = plan.samples(n)
    first = min(number(params, "row", 0), len(samples) - 1) // _ROWS * _ROWS
    batch = subject.loader.batch(n)
    losses = _row_losses(subject, n)
    rows = [_row(plan, batch, n, row) for row in range(first, min(first + _ROWS, len(samples)))]
    body = joined(_shown(subject, n, row, losses) for row in rows)
    pages = pager(
        link("earlier rows", "step", n=n, row=first - _ROWS) if first else None,
        link("later rows", "step", n=n, row=first + _ROWS) if first + _ROWS < len(samples) else None,
    )
    seq_len = plan.segment(n).seq_len
    said = f"Rows {first:,} to {first + len(rows) - 1:,} of {len(samples):,}, {seq_len:,} tokens each"
    said += f"{_loss_of(subject, n)}."
    return whole(subject, f"Step {n:,}", joined([turn, pages, body, pages]), here="step", subtitle=said)


def row_page(subject: Subject, params: Params) -> str:
    """One row of a step, whole, in parts of 2,048 tokens."""
    plan, n, which = _plan(subject), number(params, "n", 0), number(params, "row", 0)
    plan.check_served(n)
    if which >= len(plan.samples(n)):
        raise ConfigError(f"Step {n:,} has {len(plan.samples(n)):,} rows, none numbered {which:,}.")
    row = _row(plan, subject.loader.batch(n), n, which)
    count = -(-len(row.ids) // PART)
    part = min(number(params, "part", 0), count - 1)
    turn = pager(
        link(f"all rows of step {n:,}", "step", f"row-{which}", n=n, row=which),
        link("previous part", "row", n=n, row=which, part=part - 1) if part else None,
        link("next part", "row", n=n, row=which, part=part + 1) if part + 1 < count else None,
    )
    body = [turn, _documents(subject, row), _text(subject, row, part * PART, (part + 1) * PART)]
    said = f"Part {part + 1:,} of {count:,}, of the source {subject.names[row.source]}."
    return whole(subject, f"Step {n:,}, row {which:,}", joined(body), here="step", subtitle=said)


def _plan(subject: Subject) -> Plan:
    if subject.plan is None:
        raise ConfigError(f"{subject.path} is a store: give a plan or a run to see its steps.")
    return subject.plan


def _turn(plan: Plan, n: int) -> Html:
    last = plan.total_steps is not None and n + 1 >= plan.total_steps
    links = pager(
        link("previous step", "step", n=n - 1) if n else None,
        None if last else link("next step", "step", n=n + 1),
    )
    return joined([form("step", entry("step", "n", str(n), kind="number"), button="Go"), links])


def _row(plan: Plan, batch: Batch, n: int, row: int) -> _Row:
    k, _, sample = plan.samples(n)[row].tolist()
    source, documents = plan.sources[k], []
    for number_, start, end in source.cut.spans(sample, plan.segment(n).seq_len):
        first, _ = source.store.document_span(number_)
        out = bool(plan.exclusions) and plan.exclusions.covering(k, first + start, n)
        documents.append(_Part(number_, source.store.document_id(number_), start, end, out))
    arrays = (batch[key][row] for key in ("input_ids", "loss_mask", "doc_ids"))
    return _Row(row, k, documents, *arrays)


def _shown(subject: Subject, n: int, row: _Row, losses: npt.NDArray[np.float64]) -> Html:
    """A row: heading, documents, and how its text begins."""
    masked = int((~row.mask).sum())
    about = [f"{subject.names[row.source]}", f"{masked:,} of {len(row.mask):,} targets masked" if masked else "no mask"]
    heading = tag(
        "h3", link(f"Row {row.row:,}", "row", n=n, row=row.row), " · ", " · ".join(about), _loss(row.row, losses)
    )
    more = len(row.ids) - _TOKENS
    rest = paragraph(link(f"{more:,} tokens more", "row", n=n, row=row.row)) if more > 0 else ""
    parts = [heading, _documents(subject, row), _text(subject, row, 0, _TOKENS), rest]
    return tag("div", *parts, class_="row", id=f"row-{row.row}")


def _documents(subject: Subject, row: _Row) -> Html:
    """The documents of a row in their colours, each a link to where the row begins in it."""
    items = []
    for i, part in enumerate(row.documents):
        swatch = tag("span", class_=f"swatch d{i % _COLOURS}")
        name = link(part.id, "doc", "here", store=row.source, n=part.number, at=part.start)
        out = ", excluded" if part.excluded else ""
        items.append(tag("li", swatch, name, f" tokens {part.start:,} to {part.end - 1:,}{out}"))
    return tag("ul", *items)


def _text(subject: Subject, row: _Row, start: int, end: int) -> Html:
    """Tokens of a row in the colours of their documents; those that are no target struck through."""
    ids, changes = row.ids[start:end], np.diff(row.documents_of, prepend=row.documents_of[:1]) != 0
    numbers = np.cumsum(changes)[start:end].tolist()
    masked = (~row.mask[start:end]).tolist()
    kinds = [f"d{i % _COLOURS}{' masked' if out else ''}" for i, out in zip(numbers, masked, strict=True)]
    store: Store = subject.store(row.source)
    return coloured(pieces(store, ids), ids.tolist(), kinds, start)


def _row_losses(subject: Subject, n: int) -> npt.NDArray[np.float64]:
    return subject.run.row_losses([n]).get(n, np.empty(0)) if subject.run else np.empty(0)


def _loss(row: int, losses: npt.NDArray[np.float64]) -> Html | str:
    """The loss of a row in the colour of its place among those of the step."""
    if row >= len(losses) or np.isnan(losses[row]):
        return ""
    low, high = float(np.nanmin(losses)), float(np.nanmax(losses))
    share = (float(losses[row]) - low) / (high - low) if np.isfinite(high) and high > low else 0.0
    level = min(int(share * _LEVELS), _LEVELS - 1) if np.isfinite(share) else _LEVELS - 1
    return joined([" · ", tag("span", f"loss {losses[row]:.4f}", class_=f"loss l{level}")])


def _loss_of(subject: Subject, n: int) -> str:
    if subject.run is None:
        return ""
    served = subject.run.served()
    at = np.flatnonzero(served.step == n)
    if not len(at):
        return "; this step is not in the record"
    loss = f"loss {served.loss[at[0]]:.4f}" if served.told[at[0]] else "no loss told"
    return f"; {loss}, waited {served.waited[at[0]]:.3f} s"
