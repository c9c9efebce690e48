"""Lines and paragraphs compiled: where they are, what they hash to, and texts without some. Imports Numba.

A line ends before each "\n"; a paragraph is a run of lines that are not blank. Either is compared without the blanks
(space and tab to carriage return) at its ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.blake2 import digest
from gristmill.core.kernels.lines import line_end
from gristmill.core.kernels.memory import copy, empty
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import begins


@compiled
def _is_blank(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13


@compiled
def _stripped(data: Any, begin: int, end: int) -> Any:
    while begin < end and _is_blank(data[np.uint64(begin)]):
        begin += 1
    while begin < end and _is_blank(data[np.uint64(end - 1)]):
        end -= 1
    return begin, end


@compiled
def _paragraph(data: Any, at: int, end: int) -> Any:
    """Begin and end of the paragraph at or after `at`: (end + 1, end) when there is none."""
    begin, last = end + 1, end
    while at <= end:
        stop = line_end(data, at, end)
        first, after = _stripped(data, at, stop)
        if first < after:
            begin, last = min(begin, at), stop
        elif begin <= end:
            break
        at = stop + 1
    return begin, last


@compiled
def _next_span(data: Any, at: int, end: int, paragraphs: bool) -> Any:
    """Begin and end of the next line or paragraph at or after `at`; begin is over `end` when there is none."""
    if paragraphs:
        return _paragraph(data, at, end)
    return at, line_end(data, at, end) if at <= end else end


@compiled
def _has_characters(data: Any, begin: int, end: int, least: int) -> bool:
    """Whether there are at least so many characters: bytes that do not continue one."""
    count = 0
    for at in range(begin, end):
        count += begins(data[np.uint64(at)])
        if count >= least:
            return True
    return False


@entry(
    types.int64(
        BYTES, INTS, types.boolean, types.int64,
        types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1],
    )
)  # fmt: skip
def hash_spans(
    data: Any, offsets: Any, paragraphs: bool, least: int, texts: Any, spans: Any, first_half: Any, second_half: Any
) -> int:
    """Text, number in it, and digest of each line or paragraph of at least `least` >= 1 characters; their count."""
    count, scratch = 0, empty(24, np.uint64)
    for text in range(offsets.size - 1):
        span, end = 0, offsets[text + 1]
        begin, stop = _next_span(data, offsets[text], end, paragraphs)
        while begin <= end:
            first, last = _stripped(data, begin, stop)
            if _has_characters(data, first, last, least):
                texts[count], spans[count] = text, span
                first_half[count], second_half[count] = digest(data, first, last, scratch)
                count += 1
            span += 1
            begin, stop = _next_span(data, stop + 1, end, paragraphs)
    return count


@compiled
def _without(data: Any, begin: int, end: int, paragraphs: bool, spans: Any, out: Any, size: int) -> Any:
    """Copy the text [begin, end) without these spans to out[size:]; returns the new size.

    What lies between two spans goes with the later one, or, if that is the first to be kept, with the earlier one.
    """
    span, gone, none_kept = 0, 0, True
    first, stop = _next_span(data, begin, end, paragraphs)
    size = copy(data, begin, min(first, end), out, size)
    at = first
    while first <= end:
        if gone < spans.size and spans[gone] == span:
            gone += 1
        else:
            size = copy(data, first if none_kept else at, stop, out, size)
            none_kept = False
        at = stop
        span += 1
        first, stop = _next_span(data, stop + 1, end, paragraphs)
    return copy(data, min(at, end), end, out, size)


@entry(
    types.int64(
        BYTES, INTS, types.boolean, INTS, INTS,
        types.uint8[::1], types.int64[::1], types.boolean[::1],
    )
)  # fmt: skip
def remove_spans(
    data: Any, offsets: Any, paragraphs: bool, ends: Any, spans: Any, out: Any, out_offsets: Any, emptied: Any
) -> int:
    """The texts without spans[ends[i] : ends[i + 1]] of text i; `emptied` where only blanks are left of one."""
    size = 0
    for text in range(offsets.size - 1):
        out_offsets[text] = size
        begin, end, mine = offsets[text], offsets[text + 1], spans[ends[text] : ends[text + 1]]
        if mine.size == 0:
            size = copy(data, begin, end, out, size)
            continue
        after = _without(data, begin, end, paragraphs, mine, out, size)
        first, last = _stripped(out, size, after)
        emptied[text] = first == last
        size = after
    out_offsets[offsets.size - 1] = size
    return size
