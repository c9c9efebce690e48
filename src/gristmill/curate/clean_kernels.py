"""Cleaning compiled. Importing this module imports Numba (0.2 s), so import it where it is used.

A document's text is data[offsets[row]:offsets[row + 1]], valid UTF-8; what each character means is in `clean_table`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import copy, empty, filled, place_of
from gristmill.core.kernels.texts import TEXTS
from gristmill.core.kernels.types import BYTES, INTS, SHORTS
from gristmill.core.kernels.utf8 import decode
from gristmill.curate.clean_table import BLANK, BREAK, CHANGES, COMPOSED, COMPOSES, RANK, REMOVED, REPLACED

MASK = types.boolean[::1]

# Plain ASCII is passed over in blocks of this many bytes: long enough for vector instructions, and short enough
# that a few accents do not send much plain text down the slow road.
_BLOCK = 128
_JAMO_BEGIN, _JAMO_END = 0x1100, 0x1200


@compiled
def _plain(data: Any, begin: int, end: int) -> Any:
    """Whether data[begin:end] is printable ASCII, tabs and line feeds, none of them after a blank. begin is not 0."""
    odd = False
    for i in range(begin, end):
        byte, before = data[i], data[i - 1]
        odd |= ((byte < 32) & (byte != 9) & (byte != 10)) | (byte > 126)
        odd |= (byte == 10) & ((before == 32) | (before == 9))
    return not odd


@compiled
def _contains(values: Any, wanted: int) -> Any:
    place = place_of(values, wanted)
    return place < values.size and values[place] == wanted


@compiled
def _melts(previous: int, code: int, table: Any, pairs: Any) -> Any:
    """Whether `code`, which may compose, might do so here: exact after a bare letter, careful elsewhere."""
    if table[previous] & (RANK | COMPOSED) or _JAMO_BEGIN <= code < _JAMO_END:
        return True
    return _contains(pairs, np.int64(previous) << 32 | np.int64(code))


@compiled
def _needs(previous: int, code: int, table: Any, pairs: Any) -> Any:
    """What this character after that one asks for: REMOVED, REPLACED, CHANGES, BLANK."""
    bits, before = table[code], table[previous]
    found = bits & (REMOVED | REPLACED | CHANGES)
    if bits & BREAK and before & BLANK:
        found |= BLANK
    rank = bits & RANK
    if rank and before & RANK > rank:
        found |= CHANGES
    if bits & COMPOSES and _melts(previous, code, table, pairs):
        found |= CHANGES
    return found


@compiled
def _scan_document(data: Any, begin: int, end: int, table: Any, pairs: Any) -> Any:
    found, previous, position = 0, np.int64(0), begin
    while position < end:
        stop = min(position + _BLOCK, end)
        if position > begin and _plain(data, position, stop):
            previous, position = np.int64(data[stop - 1]), stop
        while position < stop:
            code, size = decode(data, position)
            if table[code]:
                found |= _needs(previous, code, table, pairs)
            previous, position = code, position + size
    if begin < end and table[previous] & (BLANK | BREAK):
        found |= BLANK
    return found


@entry(types.void(BYTES, INTS, SHORTS, INTS, types.uint16[::1]))
def scan(data: Any, offsets: Any, table: Any, pairs: Any, found: Any) -> None:
    """What each document needs: REMOVED, REPLACED and BLANK exactly, CHANGES wherever the normal form may differ."""
    for row in range(offsets.size - 1):
        found[row] = _scan_document(data, offsets[row], offsets[row + 1], table, pairs)


@entry(types.void(BYTES, INTS, MASK))
def scan_ascii(data: Any, offsets: Any, ascii: Any) -> None:
    """Which documents are ASCII throughout."""
    for row in range(offsets.size - 1):
        high = np.uint8(0)
        for i in range(offsets[row], offsets[row + 1]):
            high |= data[i]
        ascii[row] = high < 128


@compiled
def _edit_document(data: Any, begin: int, end: int, table: Any, out: Any, at: int) -> Any:
    """One document without control characters and with line feeds only; where it ends in `out`, and what was found."""
    found, position = 0, begin
    while position < end:
        code, size = decode(data, position)
        bits = table[code]
        found |= bits
        if bits & REPLACED:
            out[at] = 10
            at += 1
            size += code == 13 and position + 1 < end and data[position + 1] == 10
        elif not bits & REMOVED:
            at = copy(data, position, position + size, out, at)
        position += size
    return at, found


@entry(TEXTS(BYTES, INTS, SHORTS, types.uint16[::1]))
def edit(data: Any, offsets: Any, table: Any, found: Any) -> Any:
    """All documents without control characters and with line feeds only; `found` says which had others."""
    out, bounds = empty(offsets[-1] - offsets[0], np.uint8), filled(offsets.size, 0, np.int64)
    for row in range(offsets.size - 1):
        end, bits = _edit_document(data, offsets[row], offsets[row + 1], table, out, bounds[row])
        bounds[row + 1], found[row] = end, bits & (REMOVED | REPLACED)
    return out[: bounds[-1]].copy(), bounds


@compiled
def _strip_document(data: Any, begin: int, end: int, table: Any, out: Any, at: int) -> Any:
    """One document without blanks before line ends, and without either at its end; returns where it ends in `out`."""
    line, document, position = at, at, begin
    while position < end:
        code, size = decode(data, position)
        bits = table[code]
        if bits & BREAK:
            at = line
        at = copy(data, position, position + size, out, at)
        if not bits & BLANK:
            line = at
        if not bits & (BLANK | BREAK):
            document = at
        position += size
    return document


@entry(TEXTS(BYTES, INTS, SHORTS))
def strip(data: Any, offsets: Any, table: Any) -> Any:
    """All documents without blanks before line ends, and without either at their end."""
    out, bounds = empty(offsets[-1] - offsets[0], np.uint8), filled(offsets.size, 0, np.int64)
    for row in range(offsets.size - 1):
        bounds[row + 1] = _strip_document(data, offsets[row], offsets[row + 1], table, out, bounds[row])
    return out[: bounds[-1]].copy(), bounds
