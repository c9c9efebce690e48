"""Where lines end in UTF-8 text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled

NEWLINE, _RETURN = b"\n\r"


@compiled
def line_end(data: Any, at: int, end: int) -> Any:
    """The first line feed from `at` on, or `end`."""
    while at < end and data[np.uint64(at)] != NEWLINE:
        at += 1
    return at


@compiled
def break_size(data: Any, at: int, end: int) -> Any:
    """The bytes of what `str.splitlines` takes for the end of a line at `at`: 0 if there is none, 2 for `\\r\\n`."""
    byte = data[at]
    if byte < 0x20:
        if byte == _RETURN and at + 1 < end and data[at + 1] == NEWLINE:
            return 2
        return 1 if 0x0A <= byte <= 0x0D or 0x1C <= byte <= 0x1E else 0
    if byte == 0xC2:
        return 2 if data[at + 1] == 0x85 else 0
    return 3 if byte == 0xE2 and data[at + 1] == 0x80 and 0xA8 <= data[at + 2] <= 0xA9 else 0
