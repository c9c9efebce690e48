"""A store, or one of its splits; and what a check of it found."""

from __future__ import annotations

import shlex

from gristmill.figures.store import StoreFigures
from gristmill.places.door import address_of
from gristmill.show.funnel import show_funnel, show_split
from gristmill.show.terminal import line, table
from gristmill.store.verify import Findings


def show_store(store: StoreFigures) -> None:
    """The figures of a store and its funnel, or of one split alone."""
    manifest = store.manifest
    packed = "" if manifest.compression == "none" else f", {manifest.compression}"
    kind = f"{manifest.tokenizer['name']} tokens, {manifest.dtype}, EOS {manifest.eos}{packed}"
    columns = ("split", "shards", "documents", "tokens", "fingerprint")
    table(f"{store.path}: {kind}", columns, [(name, *vars(split).values()) for name, split in store.splits.items()])
    if store.of_one_split:
        show_split(manifest.funnel)
    else:
        show_funnel(store.steps)


def show_made(store: StoreFigures, took: str, report: str | None = None) -> None:
    """A store that was just written: its figures, how long it took, where its report is, and how to open it."""
    show_store(store)
    line(f"\nWrote {store.tokens:,} tokens {took}.")
    if store.has_dropped:
        line(f"Look at what was dropped: gristmill dropped {shlex.quote(store.path)}")
    if report:
        line(f"Read its report in a browser: {report}")
    line(f'Open it in Python: gristmill.open("{address_of(store.path) / "train"}")')


def show_findings(path: str, found: Findings, took: str) -> None:
    """Which sum covers which files, what is covered by none, and whether all is whole."""
    rows = [(kind, row["files"], row["bytes"], row["by"]) for kind, row in found.covered.items()]
    table("", ("kind", "files", "bytes", "every byte is covered by"), rows)
    for name in found.unlisted:
        line(f"{name} is covered by no sum: it is no part of the store, or an older version made it.")
    counts = f"{found.shards:,} shards, {found.documents:,} documents, {found.tokens:,} tokens"
    line(f"{path}: {counts}: {f'faults: {len(found.faults):,}' if found.faults else 'whole'}")
    line(f"Verified {took}.")
