"""A run: how it goes, a step of it, and what stands out."""

from __future__ import annotations

from gristmill.core.sizes import megabytes
from gristmill.figures.run import RunFigures, StepFigures, StepRow
from gristmill.figures.spikes import Spike, Spikes, Suspect
from gristmill.show.simulation import seconds
from gristmill.show.terminal import Row, facts, line, paragraph, percent, plain, table

_SHOWN_TEXT = 240
_SHOWN_DOCUMENTS = 6
_QUIET_SECONDS = 30.0


def show_run(title: str, run: RunFigures) -> None:
    """How a run goes: its pace, what it waits for, and its mix against its weights."""
    facts(title, run_facts(run))
    if run.mix:
        line("")
        table("", ("source", "share", "target", "epochs"), [
            (each.source, f"{each.share:.2%}", f"{each.target:.2%}", f"{each.epochs:,.2f}") for each in run.mix
        ])  # fmt: skip


def run_facts(run: RunFigures) -> dict[str, object]:
    """The figures in words, one a line."""
    looked = run.cache_hits + run.cache_misses
    return {
        "step": f"{run.step:,}" + ("" if run.steps is None else f" of {run.steps:,}"),
        "tokens": run.tokens,
        "pace": f"{run.tokens_per_second:,.0f} tokens/s, {run.steps_per_second:,.2f} steps/s",
        "waiting for data": f"{run.waited_share:.1%} of the time",
        **({"loss": f"{run.loss:.4f}"} if run.loss is not None else {}),
        **({"cache hits": f"{percent(run.cache_hits, looked)} of {looked:,}"} if looked else {}),
        **({"fetched": megabytes(run.fetched_bytes)} if run.fetched_bytes else {}),
        **({"time left": seconds(run.seconds_left)} if run.seconds_left else {}),
        **({"silent for": seconds(run.silent_seconds)} if run.silent_seconds > _QUIET_SECONDS else {}),
    }


def show_step(step: StepFigures) -> None:
    """A batch row by row: documents, loss, and how its text begins."""
    line(f"step {step.step:,}" + ("" if step.loss is None else f", loss {step.loss:.4f}"), bold=True)
    for row in step.rows:
        line("")
        line(_row_title(row))
        for found in row.documents[:_SHOWN_DOCUMENTS]:
            out = ", left out" if found.excluded else ""
            line(f"  {found.source}: {found.doc_id} [{found.start:,}:{found.end:,}]{out}")
        if len(row.documents) > _SHOWN_DOCUMENTS:
            line(f"  and {len(row.documents) - _SHOWN_DOCUMENTS:,} more")
        text = " ".join(plain(row.text).split())
        paragraph(text[:_SHOWN_TEXT] + ("…" if len(text) > _SHOWN_TEXT else ""), indent="    ")


def _row_title(row: StepRow) -> str:
    return f"row {row.row}" + ("" if row.loss is None else f", loss {row.loss:.4f}")


def show_spikes(found: Spikes) -> None:
    """The steps that stand out, and the documents behind them."""
    if not found.spikes:
        line(f"No loss of {found.steps:,} steps stands out.")
        return
    columns = ("step", "loss", "usual", "deviations", "of")
    table("steps whose loss stands out", columns, [_spike(each) for each in found.spikes])
    if found.suspects:
        line("")
        rows = [_suspect(i, each) for i, each in enumerate(found.suspects, 1)]
        table("documents behind them, the most suspicious first", ("", "document", "source", "suspicion"), rows)
    line("")
    paragraph(
        f"A loss stands out if it is more than {found.threshold:g} deviations above what the {found.window} steps "
        f"before it let expect, and the highest loss of a step's rows if it is more than {found.row_threshold:g} "
        f"above; {found.steps:,} steps have a loss."
    )


def _spike(spike: Spike) -> Row:
    rows = f"rows {', '.join(map(str, spike.rows))}" if spike.rows else "losses of its rows are not known"
    cells = (spike.step, f"{spike.loss:.4f}", f"{spike.usual:.4f}", f"{spike.deviations:,.1f}", f"the {spike.of}")
    return Row(cells, f"{rows}; {len(spike.documents):,} documents")


def _suspect(rank: int, suspect: Suspect) -> Row:
    steps = f"steps {', '.join(f'{step:,}' for step in suspect.steps)}"
    passed = f"; passed {', '.join(suspect.passed)}" if suspect.passed else ""
    text = " ".join(plain(suspect.text).split())
    below = f"{steps}; from {suspect.origin}{passed}" + (f": {text}" if text else "")
    return Row((rank, suspect.doc_id, suspect.source, f"{suspect.suspicion:,.1f}"), below)
