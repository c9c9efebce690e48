"""The figures of Gopher's quality rules, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.lines import break_size
from gristmill.core.kernels.memory import filled
from gristmill.core.kernels.slots import slot_of
from gristmill.core.kernels.types import BYTES, HASHES, INTS, INTS32
from gristmill.curate.white_space import strip
from gristmill.curate.word_kernels import ALPHA, WORD

_FIGURES = types.float64[:, ::1]
# The rows of the figures.
_COUNTED, _WORDS, _MEAN, _HASHES, _ELLIPSES, _BULLETS, _ENDS, _ALPHA, _STOPS = range(9)

_HASH, _HYPHEN, _POINT = 0x23, 0x2D, 0x2E
# The last bytes of • (U+2022) and … (U+2026).
_BULLET, _ELLIPSIS = 0xA2, 0xA6


@compiled
def _share(part: float, whole: float) -> Any:
    return part / whole if whole else np.nan


@entry(types.void(INTS, HASHES, INTS32, BYTES, HASHES, _FIGURES))
def measure_words(offsets: Any, hashes: Any, chars: Any, flags: Any, stop_words: Any, figures: Any) -> None:
    """The figures of words: how many, their mean length, and how many of certain kinds."""
    last_seen = filled(stop_words.size, 0, np.int64)
    for document in range(offsets.size - 1):
        counted = length = alpha = stops = 0
        for word in range(offsets[document], offsets[document + 1]):
            alpha += flags[word] & ALPHA
            is_word = (flags[word] & WORD) >> 1
            counted += is_word
            length += is_word * chars[word]
            slot = slot_of(stop_words, hashes[word])
            if stop_words[slot] != 0 and last_seen[slot] <= document:
                last_seen[slot] = document + 1
                stops += 1
        total = offsets[document + 1] - offsets[document]
        figures[_COUNTED, document], figures[_WORDS, document] = counted, total
        figures[_MEAN, document], figures[_ALPHA, document] = _share(length, counted), _share(alpha, total)
        figures[_STOPS, document] = stops


@compiled
def _is_general(data: Any, position: int, last: int) -> Any:
    """Whether the character here is the one in U+2000 to U+203F whose last byte is given."""
    return data[position] == 0xE2 and data[position + 1] == 0x80 and data[position + 2] == last


@compiled
def _points(data: Any, position: int, end: int) -> Any:
    after = position
    while after < end and data[after] == _POINT:
        after += 1
    return after - position


@compiled
def _begins_as_item(data: Any, begin: int, end: int) -> Any:
    """Whether a line begins with a bullet or a hyphen."""
    return begin < end and (data[begin] == _HYPHEN or _is_general(data, begin, _BULLET))


@compiled
def _ends_in_ellipsis(data: Any, begin: int, end: int) -> Any:
    if end - begin < 3:
        return False
    return _is_general(data, end - 3, _ELLIPSIS) or _points(data, end - 3, end) == 3


@compiled
def _count_symbols(data: Any, begin: int, end: int) -> Any:
    """How many #, and how many ellipses of either kind."""
    hashes = ellipses = 0
    position = begin
    while position < end:
        byte = data[position]
        if byte == _POINT:
            points = _points(data, position, end)
            ellipses += points // 3
            position += points
            continue
        hashes += byte == _HASH
        if byte == 0xE2:
            ellipses += _is_general(data, position, _ELLIPSIS)
        position += 1
    return hashes, ellipses


@compiled
def _count_lines(data: Any, begin: int, end: int, characters: Any) -> Any:
    """How many lines, how many of them begin as an item of a list, how many end in an ellipsis."""
    lines = bullets = ellipses = 0
    position = start = begin
    while position < end:
        size = break_size(data, position, end)
        position += max(size, 1)
        if size or position == end:
            first, last = strip(data, start, position, characters)
            bullets += _begins_as_item(data, first, last)
            ellipses += _ends_in_ellipsis(data, first, last)
            lines, start = lines + 1, position
    return lines, bullets, ellipses


@entry(types.void(BYTES, INTS, BYTES, _FIGURES))
def measure_lines(data: Any, offsets: Any, characters: Any, figures: Any) -> None:
    """The figures of lines and symbols; `measure_words` comes first."""
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1]
        hashes, ellipses = _count_symbols(data, begin, end)
        figures[_HASHES, document] = _share(hashes, figures[_WORDS, document])
        figures[_ELLIPSES, document] = _share(ellipses, figures[_WORDS, document])
        lines, bullets, ends = _count_lines(data, begin, end, characters)
        figures[_BULLETS, document], figures[_ENDS, document] = _share(bullets, lines), _share(ends, lines)
