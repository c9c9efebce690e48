"""Exports, imports, indexes and tokenizers: which files were linked, copied, built or learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gristmill.show.terminal import line

if TYPE_CHECKING:
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
