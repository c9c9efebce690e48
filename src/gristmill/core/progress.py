"""Who shows how far long work is: a bar in a terminal, or nobody."""

from __future__ import annotations

from typing import Protocol

BYTES = "bytes"


class Progress(Protocol):
    """Whoever shows how far long work is: so many bytes, or so many of `unit`; a total of 0 is not known."""

    def start(self, what: str, total: int, unit: str = BYTES) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...


class Quiet:
    """Shows nothing."""

    def start(self, what: str, total: int, unit: str = BYTES) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...
