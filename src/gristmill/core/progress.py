"""Who shows how far long work is: a bar in a terminal, or nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from gristmill.core.arguments import refuse

BYTES = "bytes"


@runtime_checkable
class Progress(Protocol):
    """Whoever shows how far long work is: so many bytes, or so many of `unit`; a total of 0 is not known."""

    def start(self, what: str, total: int, unit: str = BYTES) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...


@runtime_checkable
class Counting(Progress, Protocol):
    """Who also shows how many documents are kept, of how many that were read; both are added up."""

    def count(self, kept: int, read: int) -> None: ...


def count(progress: Progress, kept: int, read: int = 0) -> None:
    """Tell of documents, if they are asked for."""
    if isinstance(progress, Counting):
        progress.count(kept, read)


class Quiet:
    """Shows nothing."""

    def start(self, what: str, total: int, unit: str = BYTES) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...


# What functions take: an object of one's own, False for silence, else a bar where somebody watches.
Shown = Progress | bool | None


@contextmanager
def shown(progress: Shown) -> Iterator[Progress]:
    """Whoever is to be told, for as long as the work lasts."""
    if progress is False:
        yield Quiet()
    elif progress is None or progress is True:
        from gristmill.core.bar import Bar

        with Bar(log_seconds=float("inf")) as bar:
            yield bar
    elif isinstance(progress, Progress):
        yield progress
    else:
        raise refuse("progress", "True, False, or an object with start, advance and note", progress)
