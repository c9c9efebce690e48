"""How far long work is: a bar on a terminal or in a notebook, and a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from gristmill.core.progress import BYTES
from gristmill.core.sizes import mega, megabytes, speed
from gristmill.core.usage import resident_bytes

# A log of a run of hours stays short enough to be read.
_LOG_SECONDS = 30.0
# Work that took less is not kept in the picture, and of the rest the last pieces.
_WORTH_SECONDS, _SHOWN_WORK = 0.5, 7


class Bar:
    """Shows long work on stderr as the place allows: a bar, or a plain line every `log_seconds`; notes always.

    `read` are the bytes that the first piece of work went through, `seconds` the time so far: a command closes by them.
    """

    def __init__(self, quiet: bool = False, log_seconds: float = _LOG_SECONDS) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        watched = console.is_terminal or console.is_jupyter
        left = TimeRemainingColumn(compact=True, elapsed_when_finished=True)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=14), _DoneColumn(), left)
        off = quiet or not watched
        self._live = _Picture(*columns, console=console, transient=True, disable=off, refresh_per_second=4)
        self._live.below = self._now
        self._kept = self._counted = 0
        self._log_seconds = float("inf") if watched or quiet else log_seconds
        self._began = self._logged = time.monotonic()
        self._work: Task | None = None
        self._first: Task | None = None

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._live.disable:  # else it would end with an empty line
            self._live.stop()

    def start(self, what: str, total: int, unit: str = BYTES) -> None:
        """Begin the next piece of work; a total of 0 is not known."""
        self._log()
        self._end_work()
        self._work = self._live.task(what, total, unit)
        if unit == BYTES and total:
            self._first = self._first or self._work

    def advance(self, amount: int) -> None:
        """Some of it is done."""
        if self._work:
            self._live.advance(self._work.id, amount)
        self._log()

    def count(self, kept: int, read: int) -> None:
        """So many documents more are kept, of so many more that were read."""
        self._kept, self._counted = self._kept + kept, self._counted + read

    def _end_work(self) -> None:
        """Let the work that is done stay above the next, if it took a while, with the time that it took."""
        if self._work is None:
            return
        self._live.stop_task(self._work.id)
        if (self._work.elapsed or 0) < _WORTH_SECONDS:
            self._live.remove_task(self._work.id)
        for task in self._live.task_ids[:-_SHOWN_WORK]:
            self._live.remove_task(task)

    def _now(self) -> str:
        """`12,345 of 20,000 documents kept, 612 MB of memory`"""
        memory = resident_bytes()
        parts = [
            f"{self._kept:,} of {self._counted:,} documents kept" if self._counted else "",
            f"{megabytes(memory)} of memory" if memory else "",
        ]
        return ", ".join(part for part in parts if part)

    def note(self, text: str) -> None:
        """Something the user should know."""
        print(f"note: {text}", file=sys.stderr)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    @property
    def read(self) -> int:
        """Bytes of the first piece of work that is counted in bytes; what an earlier run had done is not in it."""
        return int(self._first.completed) if self._first else 0

    @property
    def figures(self) -> dict[str, float]:
        """For JSON."""
        return {"seconds": round(self.seconds, 3), "bytes_read": self.read}

    def took(self) -> str:
        """`in 12.3 s (55.4 MB at 4.5 MB/s)`, for the last line of a command."""
        seconds = self.seconds
        size = f" ({megabytes(self.read)} at {speed(self.read, seconds)})" if self.read else ""
        return f"in {seconds:,.1f} s{size}"

    def _log(self) -> None:
        """`reading and filtering: 12.0 of 48.0 MB, 25%, 6.0 MB/s`"""
        now, work = time.monotonic(), self._work
        if work and now - self._logged >= self._log_seconds:
            self._logged = now
            rate = work.completed / work.elapsed if work.elapsed else None
            said = f"{work.description}: {_done(work, rate, f', {work.percentage:.0f}%')}"
            print(f"{said}; {self._now()}" if self._counted else said, file=sys.stderr, flush=True)


class _Picture(Progress):
    """The work so far, a bar each, and below it how it goes."""

    below: Callable[[], str] | None = None

    def task(self, what: str, total: int, unit: str) -> Task:
        """A new piece of work."""
        made = self.add_task(what, total=total or None, unit=unit)
        return next(task for task in self.tasks if task.id == made)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.below is not None and self.tasks:
            yield Text(self.below())


class _DoneColumn(ProgressColumn):
    """How much is done of how much, and how fast."""

    def render(self, task: Task) -> Text:
        # From its beginning: work that comes in few large pieces has no speed of the moment.
        seconds = task.finished_time or task.elapsed
        return Text(_done(task, task.completed / seconds if seconds else None))


def _done(task: Task, rate: float | None, share: str = "") -> str:
    """How much of a piece of work is done, or, where its total is not known, how long it takes so far."""
    if not task.total:
        return f"{task.elapsed or 0:,.0f} s"
    done, total, unit = int(task.completed), int(task.total), task.fields["unit"]
    said = f"{mega(done)} of {megabytes(total)}" if unit == BYTES else f"{done:,} of {total:,} {unit}"
    return f"{said}{share}, {speed(int(rate), 1)}" if unit == BYTES and rate else f"{said}{share}"
