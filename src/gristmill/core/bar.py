"""How far long work is: a bar on a terminal or in a notebook, and a line now and then in a log."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from gristmill.core.progress import BYTES
from gristmill.core.sizes import mega, megabytes, speed

# A log of a run of hours stays short enough to be read.
_LOG_SECONDS = 30.0


class Bar:
    """Shows long work on stderr as the place allows: a bar, or a plain line every `log_seconds`; notes always.

    `read` are the bytes that the first piece of work went through, `seconds` the time so far: a command closes by them.
    """

    def __init__(self, quiet: bool = False, log_seconds: float = _LOG_SECONDS) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        watched = console.is_terminal or console.is_jupyter
        self._live = _live(console) if watched and not quiet else None
        self._log_seconds = float("inf") if watched or quiet else log_seconds
        self._began = self._logged = time.monotonic()
        self._work: _Work | None = None
        self._first: _Work | None = None

    def __enter__(self) -> Bar:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def start(self, what: str, total: int, unit: str = BYTES) -> None:
        """Begin the next piece of work; a total of 0 is not known."""
        self._log()
        self._work = _Work(what, total, unit)
        if unit == BYTES and total:
            self._first = self._first or self._work
        if self._live:
            for task in self._live.task_ids:
                self._live.remove_task(task)
            self._live.add_task(what, total=total or None, unit=unit)

    def advance(self, amount: int) -> None:
        """Some of it is done."""
        if self._work:
            self._work.done += amount
        if self._live:
            self._live.advance(self._live.task_ids[-1], amount)
        self._log()

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
        return self._first.done if self._first else 0

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
        now = time.monotonic()
        if self._work and now - self._logged >= self._log_seconds:
            self._logged = now
            print(self._work.line(), file=sys.stderr, flush=True)


class _Work:
    """A piece of work and how much of it is done."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what, self.total, self.unit, self.done, self.began = what, total, unit, 0, time.monotonic()

    def line(self) -> str:
        """`reading and filtering: 12.0 of 48.0 MB, 25 %, 6.0 MB/s`"""
        seconds = time.monotonic() - self.began
        if not self.total:
            return f"{self.what}: {seconds:,.0f} s"
        said = f"{self.what}: {_part(self.done, self.total, self.unit)}, {self.done / self.total:.0%}"
        return f"{said}, {speed(self.done, seconds)}" if self.unit == BYTES and seconds else said


def _part(done: int, total: int, unit: str) -> str:
    if unit == BYTES:
        return f"{mega(done)} of {megabytes(total)}"
    return f"{done:,} of {total:,} {unit}"


class _DoneColumn(ProgressColumn):
    """How much is done of how much, and how fast."""

    def render(self, task: Task) -> Text:
        unit = task.fields["unit"]
        if not task.total:
            return Text(f"{task.elapsed or 0:,.0f} s")
        said = _part(int(task.completed), int(task.total), unit)
        return Text(f"{said}, {speed(int(task.speed), 1)}" if unit == BYTES and task.speed else said)


def _live(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=14), _DoneColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
