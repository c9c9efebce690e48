"""Files on their way to object storage, or from there: on a disk of this machine while they are needed.

What waits has no name, so that a killed process leaves nothing of it. An object appears when its last part is there: a
reader sees all of it or nothing, and an upload that fails is given up at the server too. Only a process that is killed
while it sends leaves parts behind, which no listing shows: the next run gives them up (`multipart.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from gristmill.core.arrays import Bytes

# A part, and how many are sent at a time: 32 MiB of memory an upload. Clouds take 10,000 parts an object.
PART = 8 << 20
PARTS_AT_ONCE = 4
_MOST_PARTS = 10_000
# Where large files wait if TMPDIR says nothing: /tmp is often memory.
_DISK = "/var/tmp"


class Upload:
    """A file that is written here and appears elsewhere, by `send`."""

    def __init__(self, send: Callable[[IO[bytes]], None], buffering: int = -1) -> None:
        self._send, self.file = send, waiting_file(buffering)

    def keep(self) -> None:
        self.file.flush()
        self._send(self.file)
        self.file.close()

    def abandon(self) -> None:
        self.file.close()


def waiting_file(buffering: int = -1) -> IO[bytes]:
    """A file without a name on a disk of this machine."""
    folder = os.environ.get("TMPDIR") or (_DISK if os.path.isdir(_DISK) else None)
    return tempfile.TemporaryFile(buffering=buffering, dir=folder)


def mapped_file(fill: Callable[[IO[bytes]], object]) -> Bytes:
    """What `fill` writes to such a file, as an array that takes no memory of its own; the file goes with it."""
    from gristmill.places.memory import map_descriptor, owned_view

    with waiting_file() as file:
        fill(file)
        file.flush()
        return owned_view(*map_descriptor(file.fileno()))


def part_size(size: int) -> int:
    """Bytes of a part of an object of `size` bytes."""
    return max(PART, -(-size // _MOST_PARTS))
