"""zstd's seekable format: a table at the end of the file says where each frame begins, packed and unpacked.

The table is a skippable frame: its header (8 bytes), an entry a frame (packed size, unpacked size, and a checksum if
the descriptor's top bit is set; 4 bytes each), then the number of frames, the descriptor and a magic number.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import SourceError

_FOOTER = struct.Struct("<IBI")
_MAGIC = 0x8F92EAB1
_HEADER_BYTES = 8


def frame_starts(file: IO[bytes]) -> npt.NDArray[np.int64] | None:
    """Where frames begin, as rows of (packed, unpacked) byte, and a last row with the ends; None without a table."""
    size = file.seek(0, os.SEEK_END)
    if size < _FOOTER.size + _HEADER_BYTES:
        return None
    file.seek(size - _FOOTER.size)
    count, descriptor, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    width = 12 if descriptor & 0x80 else 8
    begin = size - _FOOTER.size - count * width
    if magic != _MAGIC or begin < _HEADER_BYTES:
        return None
    file.seek(begin)
    entries = np.frombuffer(file.read(count * width), "<u4").reshape(count, width // 4)
    starts: npt.NDArray[Any] = np.zeros((count + 1, 2), np.int64)
    np.cumsum(entries[:, :2], axis=0, dtype=np.int64, out=starts[1:])
    return starts if starts[-1, 0] == begin - _HEADER_BYTES else None


def frame_at(file: IO[bytes], unpacked: int) -> int:
    """The packed byte at which the frame begins that holds unpacked byte `unpacked`, which is a frame's first."""
    starts = frame_starts(file)
    if starts is None:  # it had one when it was cut
        raise SourceError(f"{file.name} changed while it was read: run the same command again.")
    return int(starts[np.searchsorted(starts[:, 1], unpacked), 0])


def frame_edges(path: Path, unit_bytes: int) -> list[int]:
    """Unpacked bytes at which frames begin, `unit_bytes` packed bytes or more apart; none without a table."""
    with open(path, "rb") as file:
        starts = frame_starts(file)
    if starts is None:
        return []
    wanted = np.searchsorted(starts[:, 0], np.arange(0, starts[-1, 0], unit_bytes))
    edges: list[int] = np.unique(starts[wanted, 1]).tolist()
    return [edge for edge in edges if edge < starts[-1, 1]]
