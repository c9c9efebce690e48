"""Who shows how far long work is: a bar in a terminal, or nobody."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Whoever shows how far long work is."""

    def start(self, what: str, total: int) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...


class Quiet:
    """Shows nothing."""

    def start(self, what: str, total: int) -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...
