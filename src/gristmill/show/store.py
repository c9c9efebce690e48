"""A store, or one of its splits; token files of other systems."""

from __future__ import annotations

import shlex
from pathlib import Path

from gristmill.figures.store import StoreFigures
from gristmill.show.funnel import show_funnel, show_split
from gristmill.show.terminal import line, table


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


def show_made(store: StoreFigures, took: str) -> None:
    """A store that was just written: its figures, how long it took, and how to open it."""
    show_store(store)
    line(f"\nWrote {store.tokens:,} tokens {took}.")
    if store.has_dropped:
        line(f"Look at what was dropped: gristmill dropped {shlex.quote(store.path)}")
    line(f'Open it in Python: gristmill.open("{Path(store.path) / "train"}")')
