"""A file that is one JSON array, as the lines of JSONL. Imports Numba: import it when needed.

Each element becomes a line without a byte moving: a comma between elements becomes a line break, a line break between
tokens a blank. So elements are read, named by their byte and reported as lines are, at any length of the array.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.errors import SourceError
from gristmill.core.kernels.types import BYTES
from gristmill.sources.streams import CHUNK_BYTES, Readable

_QUOTE, _BACKSLASH, _BREAK, _RETURN, _COMMA, _BLANK, _TAB = (ord(mark) for mark in '"\\\n\r, \t')
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = (ord(mark) for mark in "{}[]")
# Inside of a string a line break is bad JSON, and so is this.
_CONTROL = 1
# Where in the array the bytes so far have led: how deep, whether inside a string, behind a backslash, past its end.
_DEPTH, _IN_STRING, _ESCAPED, _ENDED = 0, 1, 2, 3
_FINE = -1


@entry(types.int64(BYTES, types.uint8[::1], types.int64[::1]))
def _as_lines(data: Any, out: Any, state: Any) -> int:
    """Write the next bytes of an array as lines; the first byte that no array has there, or -1."""
    for i in range(len(data)):
        byte = data[i]
        out[i] = byte
        if state[_IN_STRING]:
            if byte in (_BREAK, _RETURN):
                out[i] = _CONTROL
            if state[_ESCAPED]:
                state[_ESCAPED] = 0
            elif byte == _BACKSLASH:
                state[_ESCAPED] = 1
            elif byte == _QUOTE:
                state[_IN_STRING] = 0
        elif byte in (_BREAK, _RETURN):
            out[i] = _BLANK
        elif byte in (_BLANK, _TAB):
            pass
        elif state[_ENDED]:
            return i
        elif state[_DEPTH] == 0:
            if byte == _OPEN_LIST:
                state[_DEPTH], out[i] = 1, _BLANK
            elif byte not in (0xEF, 0xBB, 0xBF):  # a byte order mark may come first
                return i
        elif byte == _QUOTE:
            state[_IN_STRING] = 1
        elif byte in (_OPEN_OBJECT, _OPEN_LIST):
            state[_DEPTH] += 1
        elif byte in (_CLOSE_OBJECT, _CLOSE_LIST):
            state[_DEPTH] -= 1
            if state[_DEPTH] == 0:
                state[_ENDED], out[i] = 1, _BREAK
                if byte == _CLOSE_OBJECT:
                    return i
        elif byte == _COMMA and state[_DEPTH] == 1:
            out[i] = _BREAK
    return _FINE


class ArrayLines:
    """A stream of one JSON array as a stream of lines."""

    def __init__(self, stream: Readable, path: os.PathLike[str]) -> None:
        self._stream, self._path = stream, path
        self._state = np.zeros(4, np.int64)
        self._at = 0

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """At most about `size` bytes; none at the end."""
        data = np.frombuffer(self._stream.read(size), np.uint8)
        lines = np.empty(len(data), np.uint8)
        bad = _as_lines(data, lines, self._state)
        if bad != _FINE:
            raise SourceError(f"{self._path} begins as a JSON array, and is none from byte {self._at + bad:,} on.")
        if not len(data) and not self._state[_ENDED]:
            raise SourceError(f"{self._path} begins as a JSON array, and breaks off before its end.")
        self._at += len(data)
        return lines.tobytes()
