"""Characters of valid UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled

_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)


@compiled
def decode(data: Any, position: int) -> Any:
    """The character at `position`, and its length in bytes."""
    at = np.uint64(position)  # which spares the test for an index below 0
    lead: Any = np.int64(data[at])
    if lead < 0x80:
        return lead, 1
    code = (lead & 0x1F) << 6 | data[at + _1] & 0x3F
    if lead < 0xE0:
        return code, 2
    code = (code & 0x3FF) << 6 | data[at + _2] & 0x3F
    if lead < 0xF0:
        return code, 3
    return code << 6 | data[at + _3] & 0x3F, 4


@compiled
def begins(byte: Any) -> Any:
    """Whether a character begins with this byte: the other bytes of one have the bits 10 in front."""
    return byte & 0xC0 != 0x80


@compiled
def count_characters(data: Any, begin: int, end: int) -> Any:
    """How many characters begin in data[begin:end]."""
    count = 0
    for at in range(begin, end):
        count += begins(data[np.uint64(at)])
    return count


@compiled
def character_start(data: Any, at: int) -> Any:
    """Where the character begins that the byte at `at` is part of."""
    while not begins(data[at]):
        at -= 1
    return at


@compiled
def next_start(data: Any, at: int, end: int) -> Any:
    """The first place from `at` on where a character begins, `end` if there is none."""
    while at < end and not begins(data[at]):
        at += 1
    return at
