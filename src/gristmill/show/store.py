"""A store, or one of its splits; and what a check of it found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gristmill.figures.store import StoreFigures
from gristmill.places.door import address_of
from gristmill.show.funnel import show_funnel, show_split
from gristmill.show.terminal import line, table
from gristmill.store.verify import Findings

_NUMBERED = re.compile(r"(.*/shard-)(\d+)(\..+)")


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
    for split, files in store.token_files.items():
        if files:
            line(f"Token files of {split}, for a training config: {_in_braces(files)}")
    if report:
        line(f"Read its report in a browser: {report}")
    line(f'Open it in Python: gristmill.open("{address_of(store.path) / "train"}")')


def _in_braces(files: Sequence[str]) -> str:
    """Numbered files as one pattern, which shells and Gristmill itself take: train/shard-{00000..00019}.bin."""
    first, last = ((_NUMBERED.fullmatch(file), file) for file in (files[0], files[-1]))
    if len(files) == 1 or not (first[0] and last[0]):
        return ", ".join(dict.fromkeys((first[1], last[1])))
    return f"{first[0][1]}{{{first[0][2]}..{last[0][2]}}}{first[0][3]}"


def show_token_files(store: StoreFigures) -> None:
    """The token files, one a line, and nothing else: for `$(...)`."""
    for files in store.token_files.values():
        for file in files:
            line(file)


def show_findings(path: str, found: Findings, took: str) -> None:
    """Which sum covers which files, what is covered by none, and whether all is whole."""
    rows = [(kind, row["files"], row["bytes"], row["by"]) for kind, row in found.covered.items()]
    table("", ("kind", "files", "bytes", "every byte is covered by"), rows)
    for name in found.unlisted:
        line(f"{name} is covered by no sum: it is no part of the store, or an older version made it.")
    for name, began in found.unfinished.items():
        line(f"{name} has an upload that began {began} and has not ended: the next run that writes here gives it up.")
    counts = f"{found.shards:,} shards, {found.documents:,} documents, {found.tokens:,} tokens"
    line(f"{path}: {counts}: {f'faults: {len(found.faults):,}' if found.faults else 'whole'}")
    line(f"Verified {took}.")
