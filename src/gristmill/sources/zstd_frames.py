"""Files in zstd's seekable format, whose table (`core.seek_table`) says where each frame begins.

A table can be wrong, and then a file that is cut by it would lose lines or repeat them: so each frame is unpacked by
itself, and must be as long as the table says.
"""

from __future__ import annotations

import io
import os
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arguments import PathLike
from gristmill.core.errors import SourceError
from gristmill.core.seek_table import read_seek_table
from gristmill.places.door import place_at

Starts = npt.NDArray[np.int64]


def frame_starts(file: IO[bytes]) -> Starts | None:
    """Where frames begin, as rows of (packed, unpacked) byte, and a last row with the ends; None without a table."""

    def read(at: int, count: int) -> bytes:
        file.seek(at)
        return file.read(count)

    table = read_seek_table(read, file.seek(0, os.SEEK_END))
    if table and table.starts[-1, 0] != table.at:
        raise _wrong(file, "does not add up to its frames")
    return table.starts if table else None


def _wrong(file: IO[bytes], why: str) -> SourceError:
    return SourceError(f"The seek table of {file.name} {why}.", "Pack the file anew.")


class Unpacked:
    """A gzip or zstd file unpacked by Arrow, whose own `read` loses a buffer of 8 MiB where a file is damaged."""

    def __init__(self, file: IO[bytes] | _Stretch, packing: str) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), packing)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        data: bytes = self._stream.read_buffer(size).to_pybytes()
        return data


class FramedStream:
    """The unpacked bytes of a file with a table, from `start` on, which is a frame's first."""

    def __init__(self, file: IO[bytes], starts: Starts, start: int) -> None:
        self._file, self._starts = file, starts
        self._next = int(np.searchsorted(starts[:, 1], start))
        if self._next == len(starts) or starts[self._next, 1] != start:
            raise SourceError(f"{file.name} changed while it was read.", "Run the same command again.")
        self._frame: Unpacked | io.BytesIO = io.BytesIO()
        self._left = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while not self._left:
            if self._next == len(self._starts) - 1:
                return b""
            self._open()
        data = self._frame.read(min(size, self._left))
        self._left -= len(data)
        if not data:
            raise _wrong(self._file, f"has frame {self._next - 1:,} longer than it is")
        if not self._left:
            self._check_end()
        return data

    def _open(self) -> None:
        packed, self._left = (self._starts[self._next + 1] - self._starts[self._next]).tolist()
        self._file.seek(int(self._starts[self._next, 0]))
        self._frame = Unpacked(_Stretch(self._file, packed), "zstd")
        self._next += 1
        if not self._left:
            self._check_end()

    def _check_end(self) -> None:
        if self._frame.read(1):
            raise _wrong(self._file, f"has frame {self._next - 1:,} shorter than it is")


class _Stretch:
    """The next `size` bytes of a file, as a file that is not closed with them."""

    closed = False

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        pass


def frame_edges(path: PathLike, unit_bytes: int) -> list[int]:
    """Unpacked bytes at which frames begin, `unit_bytes` packed bytes or more apart; none without a table."""
    with place_at(path).open() as file:
        starts = frame_starts(file)
    if starts is None:
        return []
    wanted = np.searchsorted(starts[:, 0], np.arange(0, starts[-1, 0], unit_bytes))
    edges: list[int] = np.unique(starts[wanted, 1]).tolist()
    return [edge for edge in edges if edge < starts[-1, 1]]
