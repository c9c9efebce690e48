"""Memory for extents, used again as soon as nobody reads it: a fresh page costs more than the bytes that come into it.

A MiB is copied into fresh pages in 0.63 ms of the processor, into those of a slot in 0.09. Huge pages were no better:
on a virtual machine the first copy took 1.4 ms.
"""

from __future__ import annotations

import collections

import numpy as np

from gristmill.core.arrays import Bytes
from gristmill.core.locks import Lock

_LINE = 64


class Held:
    """The memory of one extent; whoever reads it has a reference to this, and after the last one its slot is spare."""

    __slots__ = ("_slot", "_slots", "address", "memory")

    def __init__(self, memory: Bytes, slot: Bytes | None = None, slots: list[Bytes] | None = None) -> None:
        self.address, self.memory, self._slot, self._slots = memory.ctypes.data, memory, slot, slots

    def __del__(self) -> None:
        if self._slot is not None and self._slots is not None:
            self._slots.append(self._slot)


class Shelf(collections.OrderedDict[int, Held]):
    """Extents by their numbers, the longest unused first, and how many bytes they have."""

    bytes = 0

    def put(self, number: int, held: Held) -> None:
        """Add one that is not here."""
        self[number] = held
        self.bytes += len(held.memory)

    def taken(self, number: int) -> Held | None:
        """Give one away, if it is here."""
        held = self.pop(number, None)
        self.bytes -= len(held.memory) if held else 0
        return held

    def shrink(self, size: int) -> None:
        """Let the longest unused go until no more than `size` bytes are left."""
        while self and self.bytes > size:
            self.bytes -= len(self.popitem(last=False)[1].memory)


class SpareMemory:
    """Gives memory to extents, most of which have nearly `size` bytes. Safe to call from many threads."""

    def __init__(self, size: int, least: int | None = None) -> None:
        """`least`: what has no more than that gets memory of its own, half of `size` if nothing else is said."""
        self._size, self._least, self._lock = size, size // 2 if least is None else least, Lock()
        self._slots: list[Bytes] = []

    def taken(self, size: int) -> Held:
        """Memory for `size` bytes: a slot, or memory of its own for what would leave most of one empty."""
        if not self._least < size <= self._size:
            return Held(_aligned(size))
        with self._lock:
            slot = self._slots.pop() if self._slots else _aligned(self._size)
        return Held(slot[:size], slot, self._slots)


def _aligned(size: int) -> Bytes:
    """Memory that begins at a multiple of 64, a line of the caches: what comes there can be written line by line."""
    memory = np.empty(size + _LINE - 1, dtype=np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size]
