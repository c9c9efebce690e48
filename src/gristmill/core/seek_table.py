"""The table at the end of a file in zstd's seekable format: how long each frame is, packed and unpacked.

It is a frame that other readers skip: a header (magic, size), an entry a frame (packed size, unpacked size, and a
checksum if the descriptor's top bit is set; 4 bytes each), then the number of frames, the descriptor and a magic
number. All are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_HEADER, _FOOTER = struct.Struct("<II"), struct.Struct("<IBI")
_SKIPPABLE, _SEEKABLE = 0x184D2A5E, 0x8F92EAB1
_CHECKSUMS = 0x80


class SeekTable(NamedTuple):
    """Where frames begin, as rows of (packed, unpacked) byte, and a last row with their ends; where it begins."""

    starts: npt.NDArray[np.int64]
    at: int
    descriptor: int


def seek_table_bytes(sizes: Sequence[tuple[int, int]]) -> bytes:
    """The table of frames of these sizes, packed and unpacked, without checksums."""
    entries = np.array(sizes, "<u4").tobytes()
    head = _HEADER.pack(_SKIPPABLE, len(entries) + _FOOTER.size)
    return head + entries + _FOOTER.pack(len(sizes), 0, _SEEKABLE)


def read_seek_table(read: Callable[[int, int], bytes], size: int) -> SeekTable | None:
    """The table of a file of `size` bytes, of which `read(at, count)` gives some; None if there is none."""
    if size < _HEADER.size + _FOOTER.size:
        return None
    count, descriptor, magic = _FOOTER.unpack(read(size - _FOOTER.size, _FOOTER.size))
    width = 12 if descriptor & _CHECKSUMS else 8
    at = size - _FOOTER.size - count * width - _HEADER.size
    if magic != _SEEKABLE or at < 0:
        return None
    if _HEADER.unpack(read(at, _HEADER.size)) != (_SKIPPABLE, count * width + _FOOTER.size):
        return None
    entries = np.frombuffer(read(at + _HEADER.size, count * width), "<u4").reshape(count, width // 4)
    starts = np.zeros((count + 1, 2), np.int64)
    np.cumsum(entries[:, :2], axis=0, dtype=np.int64, out=starts[1:])
    return SeekTable(starts, at, descriptor)
