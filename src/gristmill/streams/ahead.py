"""What is made before it is asked for: by the threads of a pool, or by whoever needs it before they have come to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given", covariant=True)


class Coming(Protocol[Given]):
    """Something that is being made elsewhere."""

    def result(self) -> Given:
        """Wait for it."""


class Begun(Generic[Item]):
    """Work for a pool; whoever needs it before a thread has come to it does it himself.

    So nobody waits for what others will need later: a resume with one short unit would read two units for each row.
    """

    def __init__(self, pool: ThreadPoolExecutor, work: Callable[[], Item]) -> None:
        self._work, self._future = work, pool.submit(work)

    def result(self) -> Item:
        """What the work gave, or its error; CancelledError once the pool was shut down."""
        mine = not self._future.cancelled() and self._future.cancel()
        return self._work() if mine else self._future.result()


def ahead(ask: Callable[[], Coming[Item | None]]) -> Iterator[Item]:
    """What is asked for, the next of which is always being made; the first is asked for now."""
    coming = ask()

    def each() -> Iterator[Item]:
        nonlocal coming
        while (item := coming.result()) is not None:
            coming = ask()
            yield item

    return each()
