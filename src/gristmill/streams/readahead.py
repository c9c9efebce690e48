"""Files on other machines, read before lanes come to them: an answer takes as long as it takes to make a dozen blocks.

    reader = ReadAhead(files, "raise")
    reader.begin(first)                                       # what lanes read first, side by side
    reader.turn(place, units, after).blocks(name, mishaps)    # the next block always on its way, and then what is after

Of each lane one block is read ahead, whatever its format: which bytes of a file that takes, its reader alone knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from gristmill.core.locks import Lock
from gristmill.places.workers import Workers
from gristmill.sources.base import Mishaps
from gristmill.streams.turns import END, Blocks, First, Place, Read, Reader

# Threads that read for lanes, half of which read what nobody waits for. Beyond so many requests at a time one more
# brings little from one server.
_READERS = 32


class ReadAhead:
    """A reader whose turns are read by threads of its own, one block ahead of each lane. Safe to call from many."""

    def __init__(self, reader: Reader, on_error: str) -> None:
        self._reader, self._on_error = reader, on_error
        self._workers = Workers(_READERS, "gristmill-read")
        self._lock, self._closed = Lock(), False
        # Of each lane the turn and the block that it will ask for next.
        self._expected: dict[int, tuple[Place, int, _Reading]] = {}

    def begin(self, first: Mapping[Place, First]) -> None:
        """Read what each lane begins with."""
        for place, (units, name) in first.items():
            self.expect(place, units, name)

    def expect(self, place: Place, units: Sequence[int], name: int = 0) -> None:
        """Read a turn from a block on, of which its lane will ask next."""
        with self._lock:
            if units and self._expected.get(place[0], ())[:2] != (place, name):
                self._expected[place[0]] = place, name, self._begun(place, units, name)

    def take(self, place: Place, units: Sequence[int], name: int) -> _Reading:
        """What is read of a turn from a block on; another one that was expected of its lane is needed no more."""
        with self._lock:
            *known, reading = self._expected.pop(place[0], (None, None, None))
        return reading if reading and known == [place, name] else self._begun(place, units, name)

    def leave(self, lane: int) -> None:
        """A lane goes on elsewhere: hold nothing for it."""
        with self._lock:
            self._expected.pop(lane, None)

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> Blocks:
        return _TurnAhead(self, place, units, after)

    def _begun(self, place: Place, units: Sequence[int], name: int) -> _Reading:
        mishaps = Mishaps(self._on_error)
        return _Reading(self.run, self._reader.turn(place, units, ()).blocks(name, mishaps), mishaps)

    def run(self, task: Callable[[bool], None]) -> Callable[[], None]:
        """Let a thread do a task some time, which is told whether it is still wanted; what comes back does it now."""

        def some_time() -> None:
            task(not self._closed)

        def now() -> None:
            if self._workers.take(some_time):
                task(True)

        self._workers.submit(some_time, ahead=True)
        return now

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True


class _TurnAhead:
    """A turn that is read ahead, and behind its last block the next one."""

    def __init__(self, reader: ReadAhead, place: Place, units: Sequence[int], after: Sequence[int]) -> None:
        self._reader, self._place, self._units, self._after = reader, place, units, after

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[Read]:
        lane, turn = self._place
        reading = self._reader.take(self._place, self._units, name)
        ended = partial(self._reader.expect, (lane, turn + len(self._units)), self._after)
        while read := reading.next(mishaps, ended):
            try:
                yield read
            except GeneratorExit:
                self._reader.leave(lane)
                raise


class _Reading:
    """The blocks of a turn, of which one is always on its way."""

    def __init__(
        self, run: Callable[[Callable[[bool], None]], Callable[[], None]], blocks: Iterator[Read], mishaps: Mishaps
    ) -> None:
        self._run, self._blocks, self._mishaps = run, blocks, mishaps
        self._ask(None)

    def next(self, mishaps: Mishaps, ended: Callable[[], None]) -> Read | None:
        """The next block, with what could not be read up to it; `ended` is called once it is known to be the last."""
        self._now()
        read, met = self._coming.result()
        mishaps.add(met)
        if read is not None:
            if read.after == END:
                ended()
            self._ask(ended)
        return read

    def _ask(self, ended: Callable[[], None] | None) -> None:
        self._coming: Future[tuple[Read | None, Mishaps]] = Future()
        self._now = self._run(partial(self._read, self._coming, ended))

    def _read(
        self, coming: Future[tuple[Read | None, Mishaps]], ended: Callable[[], None] | None, wanted: bool
    ) -> None:
        if not wanted:
            coming.cancel()  # who waits for it all the same is told
            return
        try:
            read = next(self._blocks, None)
            if read is None and ended:
                ended()
            coming.set_result((read, self._mishaps.taken()))
        except BaseException as error:  # it is raised where the block is asked for
            coming.set_exception(error)
