"""Decompressed frames of `.bin.zst` files, kept up to a bound: the longest unused go first, none that is being read.

Random samples of 2,048 tokens hardly ever meet a frame twice, so that each costs a whole frame (0.17 ms): the cache is
for neighbours (labels across an edge, packed documents, a stream in order), and its memory is used again rather than
given back, since a fresh page costs as much as decompressing into it.
"""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.locks import Lock
from gristmill.places.memory import advise, view
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.maps import Maps
from gristmill.store.seekable import decompress, frame_offsets

CACHE_BYTES = 64 << 20
Key = tuple[int, int]


@dataclass(eq=False, slots=True)
class _Slot:
    """The memory of one frame and how many readers it has."""

    memory: npt.NDArray[np.uint8]
    address: int
    leases: int = 0


class Frames:
    """The frames of mapped files: file i has `tokens[i]` ids of `itemsizes[i]` bytes. Safe to call from many threads.

    At most `limit` bytes are held, or what is leased at one time, if that is more. Two threads that miss one frame at
    the same time both decompress it: waiting for each other would cost more than it saves, and could hang a fork.
    """

    def __init__(self, maps: Maps, tokens: Ints, itemsizes: Ints, limit: int = CACHE_BYTES) -> None:
        self._maps, self._tokens, self._itemsizes = maps, tokens, itemsizes
        self._frame_bytes = FRAME_TOKENS * int(itemsizes.max())
        self._most = max(limit // self._frame_bytes, 1)
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        """Begin empty; what a thread of the parent was doing when this process was forked is of no use here."""
        self._owner = os.getpid()
        self._leased: dict[Key, _Slot] = {}
        self._idle: collections.OrderedDict[Key, _Slot] = collections.OrderedDict()
        # 8 bytes a frame of the files read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    @property
    def held_bytes(self) -> int:
        """Memory of all frames that are here."""
        return (len(self._leased) + len(self._idle)) * self._frame_bytes

    @contextlib.contextmanager
    def leased(self, files: Ints, frames: Ints) -> Iterator[Ints]:
        """The addresses of distinct (file, frame) pairs for the length of the block; the files must be mapped."""
        keys = list(zip(files.tolist(), frames.tolist(), strict=True))
        slots: dict[Key, _Slot] = {}
        try:
            self._take(keys, slots)
            yield np.array([slots[key].address for key in keys], dtype=np.int64)
        finally:
            self._give_back(slots)

    def _take(self, keys: list[Key], slots: dict[Key, _Slot]) -> None:
        """Lease every key: first what is here, so that it stays, then what must be decompressed."""
        with self._lock:
            if self._owner != os.getpid():
                self._forget()
            slots.update((key, self._lease(key)) for key in keys if key in self._leased or key in self._idle)
        missing = {key: self._packed(*key) for key in keys if key not in slots}
        for frame in missing.values():
            advise(frame.ctypes.data, len(frame), mmap.MADV_WILLNEED)
        for key, frame in missing.items():
            slots[key] = self._add(key, frame)

    def _lease(self, key: Key) -> _Slot:
        slot = self._leased.get(key) or self._idle.pop(key)
        slot.leases += 1
        self._leased[key] = slot
        return slot

    def _packed(self, file: int, frame: int) -> npt.NDArray[np.uint8]:
        """The compressed bytes of a frame, where they are mapped."""
        if file not in self._offsets:
            whole = self._maps.bytes_of(file)
            path, itemsize = self._maps.path(file), int(self._itemsizes[file])
            self._offsets[file] = frame_offsets(whole, int(self._tokens[file]), itemsize, f"Shard {path}")
        first, end = self._offsets[file][frame : frame + 2].tolist()
        packed: npt.NDArray[np.uint8] = self._maps.bytes_of(file)[first:end]
        return packed

    def _add(self, key: Key, packed: npt.NDArray[np.uint8]) -> _Slot:
        """Decompress a frame outside of the lock; if another thread was first, its copy is the one that counts."""
        memory = self._memory()
        file, frame = key
        count = min(int(self._tokens[file]) - frame * FRAME_TOKENS, FRAME_TOKENS) * int(self._itemsizes[file])
        decompress(packed, memory[:count], f"Frame {frame} of shard {self._maps.path(file)}")
        with self._lock:
            if key not in self._leased and key not in self._idle:
                self._idle[key] = _Slot(memory, memory.ctypes.data)
            return self._lease(key)

    def _memory(self) -> npt.NDArray[np.uint8]:
        """Memory for a frame: that of the longest unused one, once the bound is reached."""
        with self._lock:
            if self._idle and len(self._leased) + len(self._idle) >= self._most:
                return self._idle.popitem(last=False)[1].memory
        return np.empty(self._frame_bytes, dtype=np.uint8)

    def _give_back(self, slots: dict[Key, _Slot]) -> None:
        with self._lock:
            for key, slot in slots.items():
                slot.leases -= 1
                if not slot.leases and self._leased.get(key) is slot:  # else it was leased before a fork
                    self._idle[key] = self._leased.pop(key)
            while self._idle and len(self._leased) + len(self._idle) > self._most:
                self._idle.popitem(last=False)

    def read(self, file: int, start: int, stop: int, out: npt.NDArray[np.generic]) -> None:
        """Copy tokens [start, stop) of a mapped file to `out`, one frame after the other."""
        for frame in range(start // FRAME_TOKENS, -(-stop // FRAME_TOKENS)):
            base = frame * FRAME_TOKENS
            first, end = max(start, base), min(stop, base + FRAME_TOKENS)
            with self.leased(np.array([file]), np.array([frame])) as addresses:
                tokens = view(int(addresses[0]), out.dtype.str, end - base)
                out[first - start : end - start] = tokens[first - base :]
