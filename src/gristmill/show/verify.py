"""What a check of a store found."""

from __future__ import annotations

from gristmill.show.terminal import line, table
from gristmill.store.verify import Verdict


def show_verdict(path: str, verdict: Verdict, took: str) -> None:
    """Which sum covers which files, what is covered by none, and whether all is whole."""
    rows = [(kind, row["files"], row["bytes"], row["by"]) for kind, row in verdict.covered.items()]
    table("", ("kind", "files", "bytes", "every byte is covered by"), rows)
    for name in verdict.unlisted:
        line(f"{name} is covered by no sum: it is no part of the store, or an older version made it.")
    counts = f"{verdict.shards:,} shards, {verdict.documents:,} documents, {verdict.tokens:,} tokens"
    line(f"{path}: {counts}: {f'faults: {len(verdict.faults):,}' if verdict.faults else 'whole'}")
    line(f"Verified {took}.")
