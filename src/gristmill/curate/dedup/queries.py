"""Pieces of SQL that the wide passes share, in the dialect that DuckDB and Spark have in common."""

from __future__ import annotations


def alive(table: str, columns: str, dropped: bool) -> str:
    """A subquery: these columns of `table`, without the documents of a table `dropped`, where there is one."""
    gone = f" WHERE NOT EXISTS (SELECT 1 FROM dropped WHERE dropped.doc = {table}.doc)" if dropped else ""
    return f"(SELECT {columns} FROM {table}{gone})"
