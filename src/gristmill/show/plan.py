"""Plans, their steps and batches, and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from gristmill.figures.plan import BatchRow, PlanFigures
from gristmill.order.forecast import SourceForecast
from gristmill.order.trace import Seen, TraceRow
from gristmill.show.terminal import Row, facts, line, table


def show_plan(title: str, plan: PlanFigures) -> None:
    """A plan on the screen: its phases and weights uncut, and its forecast."""
    line(title)
    line(f"fingerprint {plan.fingerprint}")
    for name, value in plan.options.items():
        line(f"{name}: {f'{len(value):,}' if isinstance(value, list) else value}")
    line("")
    table("", ("from step", "to step", "seq_len", "batch_size"), [
        Row((phase.from_step, "" if phase.to_step is None else phase.to_step, phase.seq_len, phase.batch_size),
            f"weights: {_weights(phase.weights)}") for phase in plan.phases
    ])  # fmt: skip
    line(f"\nAfter {plan.forecast.step:,} steps and {plan.forecast.tokens:,} tokens:")
    table("", ("source", "samples", "share", "tokens", "epochs"), [_source_row(row) for row in plan.forecast.sources])


def _weights(weights: Mapping[str, str]) -> str:
    """`web 0.7, code 0.3`, exact; a fraction also in percent."""
    return ", ".join(f"{name} {text} ({float(Fraction(text)):.2%})" if "/" in text else f"{name} {text}"
                     for name, text in weights.items())  # fmt: skip


def _source_row(source: SourceForecast) -> Row:
    """What a source has served; below it where epochs begin, what none of them serves, and how wide the shuffle is."""
    below = []
    if source.next_epoch_steps:
        below.append(f"new epochs begin at steps {', '.join(f'{step:,}' for step in source.next_epoch_steps)}")
    if source.unread_tokens:
        below.append(f"phases leave {source.unread_tokens:,} tokens unread")
    if source.unserved_tokens:
        below.append(f"{source.unserved_tokens:,} tokens of an epoch fill no sequence")
    below.append(f"samples that lie side by side are {source.neighbours_apart:,} apart")
    cells = (source.name, source.samples, f"{source.share:.2%}", source.tokens, f"{source.epochs:,.2f}")
    return Row(cells, "; ".join(below))


def show_places(title: str, places: Sequence[TraceRow] | Sequence[Seen]) -> None:
    """The documents of a step, or the steps of a document."""
    rows = [vars(place) for place in places]
    if rows:
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    else:
        line(f"{title} no step")


def show_state(state: Mapping[str, object]) -> None:
    """A checkpoint; the parts by which it knows its plan are for programs."""
    facts("checkpoint", {key: value for key, value in state.items() if key != "parts"})


def show_batch(step: int, batch: Sequence[BatchRow]) -> None:
    """The first rows of a batch as text, with the documents behind them."""
    table(f"step {step:,}", ("row", "source", "input_ids", "text"), [_batch_row(row) for row in batch])


def _batch_row(row: BatchRow) -> Row:
    first, *others = row.documents
    ids, text = " ".join(map(str, row.tokens[:5])), row.text.replace("\n", "⏎")
    more = f" and {len(others)} more" if others else ""
    return Row((row.row, first.source, f"{ids} …", text[:40]), f"{first.doc_id} [{first.start}:{first.end}]{more}")
