"""Pieces of SQL that the wide passes share, in the dialect that DuckDB and Spark have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Tables = Mapping[str, Sequence[Path]]


def alive(table: str, columns: str, dropped: Sequence[Path]) -> str:
    """A subquery: these columns of `table`, without the documents that are already gone."""
    if not dropped:
        return f"(SELECT {columns} FROM {table})"
    gone = f"SELECT 1 FROM dropped WHERE dropped.doc = {table}.doc"
    return f"(SELECT {columns} FROM {table} WHERE NOT EXISTS ({gone}))"


def with_dropped(tables: Tables, dropped: Sequence[Path]) -> Tables:
    """`tables` with the files of documents that are already gone, if there are any."""
    return {**tables, "dropped": dropped} if dropped else tables
