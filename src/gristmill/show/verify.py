"""What a check of a store found."""

from __future__ import annotations

from gristmill.show.terminal import line, table
from gristmill.store.verify import Findings


def show_findings(path: str, found: Findings, took: str) -> None:
    """Which sum covers which files, what is covered by none, and whether all is whole."""
    rows = [(kind, row["files"], row["bytes"], row["by"]) for kind, row in found.covered.items()]
    table("", ("kind", "files", "bytes", "every byte is covered by"), rows)
    for name in found.unlisted:
        line(f"{name} is covered by no sum: it is no part of the store, or an older version made it.")
    counts = f"{found.shards:,} shards, {found.documents:,} documents, {found.tokens:,} tokens"
    line(f"{path}: {counts}: {f'faults: {len(found.faults):,}' if found.faults else 'whole'}")
    line(f"Verified {took}.")
