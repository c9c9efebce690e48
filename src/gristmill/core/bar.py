"""How far long work is, on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from types import TracebackType

_errors = Console(stderr=True, highlight=False, markup=False, emoji=False)


class Bar:
    """A progress bar on a terminal; only notes, on stderr, where nobody watches."""

    def __init__(self, quiet: bool = False) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._shown = _errors.is_terminal and not quiet
        self._bar = Progress(*columns, console=_errors, disable=not self._shown, transient=True)
        self._task: Any = None

    def __enter__(self) -> Bar:
        if self._shown:  # a disabled bar of older versions of rich still prints a line when it stops
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()

    def start(self, what: str, total: int) -> None:
        """Begin the next piece of work."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total)

    def advance(self, amount: int) -> None:
        """Some of it is done."""
        self._bar.advance(self._task, amount)

    def note(self, text: str) -> None:
        """Something the user should know."""
        print(f"note: {text}", file=sys.stderr)
