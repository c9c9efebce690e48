"""What commands report: files that were linked or copied, a tokenizer, a dry run, what this machine delivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gristmill.show.funnel import commonest
from gristmill.show.terminal import Row, facts, line, paragraph, table

if TYPE_CHECKING:
    from gristmill.figures.bench import Asked, Delivered
    from gristmill.stages.forecast import RunForecast
    from gristmill.store.export import ExportReport
    from gristmill.store.importing import ImportReport
    from gristmill.tokenize.training import TrainingReport


def show_exchange(report: ExportReport | ImportReport, took: str) -> None:
    """What an export or import linked, copied, and says to its user."""
    for name in report.linked:
        line(f"linked   {name}")
    for name in report.copied:
        line(f"copied   {name}")
    for note in report.notes:
        line(note)
    line(f"Done {took}.")


def show_trained(path: str, report: TrainingReport, took: str) -> None:
    """What a tokenizer was learnt from, and how it is used."""
    learnt = f"{report.vocab_size:,} ids from {report.documents:,} documents, {report.text_bytes:,} bytes"
    line(f"{path} holds {learnt}: use it by --tokenizer {path}.")
    line(f"Done {took}.")


def show_bench(store: str, asked: Asked, rows: Sequence[Delivered]) -> None:
    """What was measured, as a table."""
    columns = ("threads", "million tokens/s", "batches/s", "first batch (ms)")
    table(f"{store}: {asked.cut} {asked.seq_len} x {asked.batch_size}", columns, [
        (row.threads, round(row.tokens_per_second / 1e6, 1), round(row.batches_per_second, 1),
         round(row.first_batch_seconds * 1e3, 1)) for row in rows
    ])  # fmt: skip


def show_forecast(forecast: RunForecast) -> None:
    """What a run would do: inputs, steps, what the sample's rules say, an estimate."""
    sources, sample, estimate = forecast["sources"], forecast["sample"], forecast["estimate"]
    table(f"inputs of {forecast['out']}", list(sources[0]), [list(row.values()) for row in sources])
    paragraph(f"steps: {' > '.join(forecast['steps'])}; {forecast['workers']} workers")
    if sample["rules"]:
        line("")
        columns = ("rule", "alone", "only it", "in order")
        rows = [Row((row["rule"], row["alone"], row["only"], row["in_order"]), commonest(row["reasons"]))
                for row in sample["rules"]]  # fmt: skip
        table(f"documents dropped of a sample of {sample['documents']:,}, {sample['kept']:,} kept", columns, rows)
    line("")
    ranges = {name: "" if low == high else f" ({low:,} to {high:,})" for name, (low, high) in forecast["range"].items()}
    facts("estimate, before dedup", {name: f"{value:,}{ranges[name]}" for name, value in estimate.items()})
