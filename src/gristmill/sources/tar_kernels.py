"""Samples of text in a tar's bytes, by a walk over headers that hold nothing but a plain name and a size.

Whatever else a header may be (PAX, GNU's, a link, a folder, a prefix, a sum of the old kind, a name that must be
cleaned) ends the walk: `tar.py` knows all of them. Imports Numba: import it when needed.
"""

from __future__ import annotations

from typing import Any

from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import common, copy
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.sources.tar_samples import AT, IGNORED, JSON, KEY, TEXT

_BLOCK, _NAME = 512, 100
_SIZE, _SUM, _KIND, _PREFIX = 124, 148, 156, 345
_DOT, _SLASH, _LINE, _BLANK, _ZERO = (ord(mark) for mark in "./_ 0")


@compiled
def _octal(data: Any, at: int, end: int) -> Any:
    """The number between blanks and a NUL; -1 if it is no plain one."""
    number = -1
    while at < end and data[at] == _BLANK:
        at += 1
    while at < end and _ZERO <= data[at] < _ZERO + 8:
        number = max(number, 0) * 8 + data[at] - _ZERO
        at += 1
    while at < end and data[at] == _BLANK:
        at += 1
    return number if at == end or data[at] == 0 else -1


@compiled
def _is_plain(data: Any, at: int) -> Any:
    """Whether a file's header is here, without a prefix to its name."""
    total = 8 * _BLANK  # what the sum counts for itself
    for i in range(_BLOCK):
        total += data[at + i]
    for i in range(_SUM, _SUM + 8):
        total -= data[at + i]
    kind = data[at + _KIND]
    return data[at + _PREFIX] == 0 and (kind == _ZERO or kind == 0) and total == _octal(data, at + _SUM, at + _SUM + 8)


@compiled
def _dot_of(data: Any, begin: int, end: int) -> Any:
    """Where a name's key ends, and where the name does; -1 where the name is not its key, a dot and a suffix."""
    dot, at, first = -1, begin, True
    if data[begin] == _LINE and data[begin + 1] == _LINE:
        return -1, at
    while at < end and data[at] != 0:
        byte = data[at]
        if byte >= 128 or (first and byte in (_DOT, _SLASH)):
            return -1, at
        first = byte == _SLASH
        if first:
            dot = -1
        elif byte == _DOT and dot < 0:
            dot = at
        at += 1
    return dot, at


@compiled
def _which(data: Any, begin: int, end: int, names: Any, starts: Any) -> Any:
    """Which of some names these bytes are in small letters; -1 if none."""
    for i in range(starts.size - 1):
        same = end - begin == starts[i + 1] - starts[i]
        at = begin
        while same and at < end:
            byte = data[at]
            small = byte + 32 if 65 <= byte <= 90 else byte
            same = small == names[starts[i] + at - begin]
            at += 1
        if same:
            return i
    return -1


@entry(types.int64(BYTES, BYTES, INTS, types.int64[:, ::1]))
def walk(data: Any, suffixes: Any, starts: Any, found: Any) -> int:
    """How many whole samples were found; the row after the last says where the walk must be taken up.

    A sample is whole once a member of another key has been met; keys are compared with what is before them in a name,
    as they stand. Of `suffixes` the last is that of JSON, the others are
    those of texts: a sample has one text, or JSON, or both. Without suffixes any sample will do.
    """
    count, at, is_open = 0, 0, False
    found[0, AT] = 0
    while at + _BLOCK <= data.size and _is_plain(data, at):
        begin = at + 2 if data[at] == _DOT and data[at + 1] == _SLASH else at
        dot, end = _dot_of(data, begin, at + _NAME)
        size = _octal(data, at + _SIZE, at + _SIZE + 12)
        if dot < 0 or size < 0:
            break
        row = found[count]
        length = row[KEY + 1] - row[AT]
        if not (is_open and length == dot - at and common(data, row[AT], data, at, length) == length):
            if is_open:
                if starts.size > 1 and row[TEXT] < 0 and row[JSON] < 0:
                    break
                count += 1
            row, is_open = found[count], True
            row[AT], row[KEY], row[KEY + 1], row[TEXT], row[JSON], row[IGNORED] = at, begin, dot, -1, -1, 0
        which = _which(data, dot + 1, end, suffixes, starts)
        column = JSON if which == starts.size - 2 else TEXT
        if which < 0:
            row[IGNORED] += 1
        elif row[column] >= 0:
            break
        else:
            row[column], row[column + 1] = at + _BLOCK, at + _BLOCK + size
        at += _BLOCK + (size + _BLOCK - 1) // _BLOCK * _BLOCK
    return count


@entry(types.void(BYTES, types.int64[:], types.int64[:], BYTES, types.uint8[::1], types.int64[::1]))
def cut_out(data: Any, begins: Any, ends: Any, prefix: Any, out: Any, bounds: Any) -> None:
    """Write bytes [begins[i], ends[i]) end to end, each behind a prefix, and where each begins."""
    to = bounds[0] = 0
    for row in range(begins.size):
        to = copy(data, begins[row], ends[row], out, copy(prefix, 0, prefix.size, out, to))
        bounds[row + 1] = to
