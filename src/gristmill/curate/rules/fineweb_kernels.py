"""The figures of FineWeb's rules, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry, leaf
from gristmill.curate.characters import TERMINAL
from gristmill.curate.hash_sets import key_of, slot_of
from gristmill.curate.rules.white_space import skip_spaces
from gristmill.curate.word_kernels import BYTES, INTS, decode

_FIGURES = types.float64[:, ::1]
# The rows of the figures; what ends as LISTS is the number of line feeds here.
_LINES, _PUNCT, _SHORT, _DUP, _LISTS = range(5)
_NEWLINE = 0x0A


@leaf
def _line_end(data: Any, position: int, end: int) -> Any:
    """Where the line at `position` ends, and its length in characters."""
    chars = 0
    while position < end and data[position] != _NEWLINE:
        chars += data[position] & 0xC0 != 0x80
        position += 1
    return position, chars


@leaf
def _last_character(data: Any, end: int) -> Any:
    position = end - 1
    while data[position] & 0xC0 == 0x80:
        position -= 1
    return decode(data, position)[0]


@leaf
def _is_new(seen: Any, key: Any) -> Any:
    """Whether this line is the first of its kind; it is then seen."""
    slot = slot_of(seen, key)
    if seen[slot] == key:
        return False
    seen[slot] = key
    return True


@compiled
def _room(data: Any, begin: int, end: int) -> Any:
    """An empty hash set for every line."""
    lines = 1
    for position in range(begin, end):
        lines += data[position] == _NEWLINE
    slots = 4
    while slots < 2 * lines:
        slots *= 2
    return np.zeros(slots, np.uint64), lines - 1


@entry(types.void(BYTES, INTS, BYTES, types.int64, _FIGURES))
def measure_lines(data: Any, offsets: Any, characters: Any, short_chars: int, figures: Any) -> None:
    """The figures of each document's lines that are not blank."""
    for document in range(offsets.size - 1):
        start, end = offsets[document], offsets[document + 1]
        seen, figures[_LISTS, document] = _room(data, start, end)
        lines = terminal = short = repeated = total = 0
        while start < end:
            after, chars = _line_end(data, start, end)
            total += chars
            if skip_spaces(data, start, after, characters) < after:
                lines += 1
                terminal += (characters[_last_character(data, after)] & TERMINAL) != 0
                short += chars <= short_chars
                repeated += 0 if _is_new(seen, key_of(data, start, after)) else chars
            start = after + 1
        figures[_LINES, document] = lines
        figures[_PUNCT, document], figures[_SHORT, document] = terminal / max(lines, 1), short / max(lines, 1)
        figures[_DUP, document] = repeated / max(total, 1)
