"""The trivial engine: one process, no pool. It keeps the seam honest, and is the one for small inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gristmill.engine.base import P, R
from gristmill.engine.duck import Duck


class InlineEngine(Duck):
    """Calls functions where it stands, and asks DuckDB on one thread."""

    def __init__(self, memory: int, scratch: Path) -> None:
        super().__init__(memory, scratch, threads=1)

    def start(self, function: Callable[[], None]) -> None:
        """There is nobody to get ready while this process does other things."""

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part, one after the other."""
        return map(function, parts)
