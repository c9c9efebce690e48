"""What all screens share: the console, tables, JSON, and text that cannot steer a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Documents and paths are printed as they are: no markup, no emoji codes; and whole where nobody watches.
_WIDE = 500
console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
SHOWN_TEXT = 1000
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def print_json(values: Any) -> None:
    """JSON on stdout."""
    print(json.dumps(values, indent=1))


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are spelt out."""
    return text.translate(_CONTROLS)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; numbers to the right."""
    console.print(plain(title), soft_wrap=True)
    made = Table()
    for i, name in enumerate(columns):
        numeric = all(isinstance(row[i], int | float) or row[i] == "" for row in rows)
        made.add_column(name, justify="right" if numeric and rows else "left")
    for row in rows:
        made.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else plain(str(cell))) for cell in row))
    console.print(made)
