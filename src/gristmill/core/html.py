"""What a notebook shows of an object: a small table, all of it escaped, nothing fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table under its title; numbers get thousands separators."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div>{escape(title)}<table border="1"><tr>{head}</tr>{body}</table></div>'


def _cell(value: object) -> str:
    return f"<td>{escape(f'{value:,}' if isinstance(value, int) else str(value))}</td>"


def counted(number: int, noun: str) -> str:
    """`1 shard`, `12,000 shards`"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
