"""What all screens share: lines, tables, JSON, and text that cannot steer a terminal."""

from __future__ import annotations

import errno
import json
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass

from rich.cells import cell_len
from rich.console import Console

# A log has no width, and a value is never cut: screens are laid out to fit this one by themselves.
WIDTH = 80
_GAP = "  "
# A blank at which a paragraph is not broken.
JOIN = "\u00a0"
_SPELT = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS = {code: text for code, text in _SPELT.items() if chr(code) not in "\n\t"}


class _Screen(Console):
    """A console that leaves a closed pipe to the command line, which knows how to end."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


_console = _Screen(highlight=False, markup=False, emoji=False, soft_wrap=True)


def line(text: str, *, bold: bool = False) -> None:
    """One line, whole: a terminal wraps it where it must."""
    _console.print(plain(text), style="bold" if bold else None)


def paragraph(text: str, indent: str = "") -> None:
    """Text in lines of at most 80 columns; what has no blank in it stays whole."""
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    for wrapped in wrapper.wrap(text):
        line(wrapped.replace(JOIN, " "))


def print_json(figures: object) -> None:
    """One JSON value on stdout, dataclasses by their fields; what JSON has no number for is null."""
    print(json.dumps(_values(figures), indent=1, allow_nan=False))


def _values(figures: object) -> object:
    if is_dataclass(figures):
        figures = vars(figures)
    if isinstance(figures, dict):
        return {key: _values(value) for key, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [_values(value) for value in figures]
    return None if isinstance(figures, float) and not math.isfinite(figures) else figures


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are spelt out."""
    return text.translate(_CONTROLS)


def percent(part: int, whole: int) -> str:
    """`99.5%`, never rounded to all or nothing; nothing where there is no whole."""
    if not whole:
        return ""
    share = 100 * part / whole
    if part in (0, whole):
        return f"{share:.0f}%"
    return f"{min(max(share, 0.1), 99.9) if part < whole else share:.1f}%"


@dataclass(frozen=True)
class Row:
    """A row of a table, with what stands in lines of its own below it."""

    cells: Sequence[object]
    below: str = ""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object] | Row]) -> None:
    """A table in plain columns, as wide as its values; numbers to the right, with their thousands marked."""
    made = [row if isinstance(row, Row) else Row(row) for row in rows]
    cells = [[_cell(value) for value in row.cells] for row in made]
    right = [bool(made) and all(_is_figure(row.cells[i]) for row in made) for i in range(len(columns))]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if title:
        line(title)
    line(_joined(columns, widths, right), bold=True)
    for row, texts in zip(made, cells, strict=True):
        line(_joined(texts, widths, right))
        paragraph(row.below, indent="    ")


def facts(title: str, values: Mapping[str, object]) -> None:
    """Names and values, one a line; the values whole."""
    line(title, bold=True)
    width = max(map(len, values), default=0)
    for name, value in values.items():
        line(f"{name:{width}}{_GAP}{_cell(value)}")


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).translate(_SPELT)


def _is_figure(value: object) -> bool:
    """Numbers, and text that is one: `12.5`, `99%`, `<0.001`, nothing."""
    if isinstance(value, bool) or value is None:
        return False
    return not isinstance(value, str) or not value.strip("<%").replace(",", "").replace(".", "").strip("0123456789")


def _joined(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for text, width, numeric in zip(texts, widths, right, strict=True):
        blank = " " * (width - cell_len(text))
        padded.append(blank + text if numeric else text + blank)
    return _GAP.join(padded).rstrip()
