"""Arrow files that cannot be mapped where they lie: outlined by the headers of their messages, and read by ranges.

An outline is kept as is what tells where the samples of a tar begin. It decides no document: what lies in a file is
compared with it whenever it is read. A file in which anything is odd has none: Arrow says what is wrong with that.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.arrow_messages import count_rows
from gristmill.core.errors import SourceError
from gristmill.core.texts import runs
from gristmill.places.base import Place
from gristmill.sources.arrow_walk import Row, parsed, walk
from gristmill.sources.base import InputFile
from gristmill.sources.columns import damage_named
from gristmill.sources.held_ranges import bytes_at
from gristmill.sources.tar_index import forget_index, kept_index

# Record batches are fetched so many bytes at once, or one by one.
_RANGE_BYTES = 8 << 20
# The name of outlines among what is kept; the number changes with what theirs mean.
_KIND = "arrow 1"
_NUMBERS = 4


@dataclass(frozen=True, eq=False)
class Outline:
    """Where the schema and the record batches of a file lie, end to end: a `Row` of `arrow_walk.py` each."""

    file: InputFile
    place: Place
    table: Ints

    @property
    def has_dictionaries(self) -> bool:
        """Whether record batches need others before them, of which it tells nothing."""
        return bool(self.table[0, 2])

    @property
    def bodies(self) -> list[int]:
        """The bytes of each record batch."""
        return list(self.table[1:, 2].tolist())

    @property
    def largest(self) -> int:
        """The bytes of the largest record batch."""
        return int(self.table[1:, 2].max(initial=0))

    def rows_before(self, batch: int) -> int:
        """The rows of the record batches before one."""
        return int(self.table[1:, 3][:batch].sum())

    def schema(self) -> pa.Schema:
        """What the file says of its columns: asked for once by a process that reads much of it."""
        with self._compared():
            message = _schema(self.place, *self.table[0, :2].tolist())  # type: ignore[arg-type]  # a place has its hash
        return pa.ipc.read_schema(message)

    def messages(self, start: int, stop: int | None) -> Iterator[pa.Message]:
        """Some of the record batches, by few requests."""
        table = self.table[1:][start:stop]
        edges = np.append(table[:1, 0], table[:, :3].sum(1))
        for begin, end in runs(edges, _RANGE_BYTES):
            data = pa.py_buffer(bytes_at(self.place, int(edges[begin]), int(edges[end] - edges[begin])))
            for row in table[begin:end].tolist():
                yield self._message(data.slice(row[0] - int(edges[begin]), row[1] + row[2]), row)

    def _message(self, data: pa.Buffer, row: Row) -> pa.Message:
        """A record batch, if it is the one of this row of the outline."""
        _, head, *expected = row
        with self._compared():
            message, body = parsed(memoryview(data)[:head])
            if message.type != "record batch" or [body, count_rows(message)] != expected:
                raise ValueError("it has another record batch there")
        return pa.ipc.read_message(data)

    @contextlib.contextmanager
    def _compared(self) -> Iterator[None]:
        """What is not as the outline says was written since, on a server that tells no versions apart."""
        try:
            with damage_named(self.file, "Arrow IPC"):
                yield
        except SourceError as error:
            forget_index(self.place, _KIND)
            raise SourceError(f"{self.file.path} changed while it was read.", "Run the same command again.") from error


@functools.lru_cache(maxsize=256)
def _schema(place: Place, at: int, size: int) -> pa.Message:
    message, _ = parsed(memoryview(bytes_at(place, at, size)))
    if message.type != "schema":
        raise ValueError("it has no schema there")
    return message


def outline_of(file: InputFile) -> Outline | None:
    """The outline of a file that lies elsewhere; None for one that is mapped, and where anything is odd."""
    place = file.place.pinned()
    if place.maps:
        return None
    size = place.size()
    file.check(size)
    kept = functools.partial(kept_index, place, lambda: _walk(file, place, size), _KIND)
    found = kept()
    if not _fits(found, size):
        forget_index(place, _KIND)
        found = kept()
    return Outline(file, place, found.reshape(-1, _NUMBERS)) if len(found) else None


def _fits(found: Ints, size: int) -> bool:
    """Whether numbers can be the outline of a file of this size."""
    if len(found) % _NUMBERS:
        return False
    table = found.reshape(-1, _NUMBERS)
    if (table < 0).any() or (table[:, :3] > size).any():
        return False
    ends = table[:, :2].sum(1)
    ends[1:] += table[1:, 2]
    return bool((ends[:-1] == table[1:, 0]).all() and (ends <= size).all())


def _walk(file: InputFile, place: Place, size: int) -> Iterable[int]:
    """The numbers of an outline; none where anything is odd."""
    with contextlib.suppress(SourceError), damage_named(file, "Arrow IPC"):
        return list(itertools.chain.from_iterable(walk(place, size)))
    return ()
