"""A process beside this one that answers questions in turn; arrays come back through memory that both of them map.

    partner = Partner(begin, handed, slots=64, slot_bytes=4 << 20)
    asked = partner.ask(1, 2)       # the process calls begin(handed)(1, 2), questions in the order in which they came
    asked.result()                  # its answer, or its error

An answer is pickled without its arrays. They lie in a slot of the shared memory for as long as one of them is alive
here: no byte goes through a pipe, which takes 64 KiB at a time and wakes a thread for each. What does not fit into a
slot, or finds none free, does go through it. The memory has no name, so that a kill leaves nothing of it.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import socket
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from multiprocessing import reduction, util
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import numpy as np

from gristmill.core.arrays import Bytes
from gristmill.core.errors import EngineError
from gristmill.core.watched import end_with
from gristmill.engine.processes import deaf_children

T = TypeVar("T")
# Questions under way: the kernel takes as many at once, so that who asks never waits.
_UNDER_WAY = 256
# Arrays begin with a line of the caches.
_LINE = 64
_NO_SLOT = -1
_BEGUN = "A worker process died, perhaps for want of memory."
_NOT_BEGUN = (
    "A worker process ended before it could begin; what it printed above says why. A script that starts workers does "
    'so below `if __name__ == "__main__":`, since each of them imports it.'
)


class PartnerEnded(EngineError):
    """The process has gone, or was told to, before it answered."""


class Asked(Generic[T]):
    """A question; whoever waits for its answer takes in those of all questions before it."""

    def __init__(self, receive: Callable[[], None]) -> None:
        self._receive = receive
        self.answer: tuple[T, Exception | None] | None = None

    def result(self) -> T:
        """The answer, or the error that was raised there."""
        while self.answer is None:
            self._receive()
        value, error = self.answer
        if error is not None:
            raise error
        return value


class Partner(Generic[T]):
    """One process, which answers by what `begin(*handed)` gives there. For one thread at a time, but for `close`."""

    def __init__(self, begin: Callable[..., Callable[..., T]], *handed: object, slots: int, slot_bytes: int) -> None:
        # Not among the arguments: Python would wait for ever to hand 64 KiB or more to a process that ends at once.
        first = pickle.dumps((begin, handed))
        self._slots = _Slots(slots, slot_bytes)
        self._later: deque[tuple[Asked[T], tuple[object, ...]]] = deque()
        self._waiting: deque[tuple[Asked[Any], int]] = deque()
        self.begun: Asked[None] = Asked(self.receive)
        self._waiting.append((self.begun, _NO_SLOT))
        ours, theirs = socket.socketpair()
        self._pipe = Connection(os.dup(ours.fileno()))
        with deaf_children(), Connection(theirs.detach()) as other:
            answering = (os.getpid(), other, self._slots.file, slot_bytes)
            self.process = multiprocessing.get_context("spawn").Process(target=_answer, args=answering)
            self.process.start()
        # Python waits for its processes when it ends, and they for a question: this comes first.
        self.close: Callable[[], None] = util.Finalize(self, _hang_up, (ours,), exitpriority=100)
        with suppress(OSError):  # which whoever receives meets too
            self._pipe.send_bytes(first)

    def ask(self, *question: object) -> Asked[T]:
        """The process will come to it, after all that was asked before."""
        asked: Asked[T] = Asked(self.receive)
        self._later.append((asked, question))
        self._send()
        return asked

    def _send(self) -> None:
        while self._later and len(self._waiting) < _UNDER_WAY:
            asked, question = self._later.popleft()
            slot = self._slots.taken()
            self._waiting.append((asked, slot))
            with suppress(OSError):  # which whoever receives meets too
                self._pipe.send_bytes(pickle.dumps((slot, question)))

    def receive(self) -> None:
        """Wait for the next answer."""
        try:
            used, sizes, head = pickle.loads(self._pipe.recv_bytes())  # which a process of our own has pickled
            sent = [] if used else [self._pipe.recv_bytes() for _ in sizes]
        except (EOFError, OSError) as error:
            raise PartnerEnded(_BEGUN if self.begun.answer else _NOT_BEGUN) from error
        asked, slot = self._waiting.popleft()
        places = self._slots.places(slot, sizes if used else [])
        asked.answer = pickle.loads(head, buffers=places if used else sent)
        self._send()


def _hang_up(ours: socket.socket) -> None:
    """The process ends after what it is doing; whoever waits for an answer of it is told."""
    with suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)
    ours.close()


class _File:
    """A file without a name that a process which is being started inherits."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[object, ...]:
        return _inherited, (reduction.DupFd(self.descriptor),)


def _inherited(descriptor: Any) -> _File:
    return _File(descriptor.detach())


class _Slots:
    """`count` slots of memory that a partner maps too; one is free again when the last array in it has gone."""

    def __init__(self, count: int, size: int) -> None:
        self.file, self._size = _File(os.memfd_create("gristmill")), size
        os.ftruncate(self.file.descriptor, max(count * size, 1))
        self._memory = mmap.mmap(self.file.descriptor, 0)
        self._free = deque(range(count))
        self._used: dict[int, weakref.ref[Bytes]] = {}  # which hear when the last array in a slot has gone

    def taken(self) -> int:
        """A free slot, if there is one: that which was used last, whose pages are there."""
        return self._free.pop() if self._free else _NO_SLOT

    def places(self, slot: int, sizes: Sequence[int]) -> list[Bytes]:
        """Memory of these sizes in a slot that was taken; it is given back when they have gone."""
        if slot == _NO_SLOT:
            return []
        whole, free = np.frombuffer(self._memory, np.uint8, self._size, slot * self._size), self._free
        self._used[slot] = weakref.ref(whole, lambda _: free.append(slot))
        return [whole[end - size : end] for end, size in zip(_ends(sizes), sizes, strict=True)]


def _ends(sizes: Sequence[int]) -> list[int]:
    """Where each of these arrays ends in a slot."""
    begins = accumulate((-(-size // _LINE) * _LINE for size in sizes), initial=0)
    return [begin + size for begin, size in zip(begins, sizes, strict=False)]


# What the other process does.


def _answer(parent: int, pipe: Connection, file: _File, size: int) -> None:
    end_with(parent)
    memory = memoryview(mmap.mmap(file.descriptor, 0))
    with suppress(EOFError, OSError):  # nobody is there any more
        work, error = _tried(_begin, [pipe.recv_bytes()])
        _reply(pipe, memory[:0], (None, error))
        while work is not None:
            slot, question = pickle.loads(pipe.recv_bytes())  # which the process that started this one has pickled
            first = slot * size if slot != _NO_SLOT else len(memory)
            _reply(pipe, memory[first : first + size], _tried(work, question))


def _begin(handed: bytes) -> Callable[..., Any]:
    """What answers questions."""
    begin, arguments = pickle.loads(handed)  # which the process that started this one has pickled
    answering: Callable[..., Any] = begin(*arguments)
    return answering


def _tried(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Exception | None]:
    """What a function gives, or its error; one that cannot be handed over, in words."""
    try:
        return function(*arguments), None
    except Exception as error:
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return None, error
        return None, EngineError(f"A worker process failed: {type(error).__name__}: {error}")


def _reply(pipe: Connection, slot: memoryview, answer: tuple[Any, Exception | None]) -> None:
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    sizes = [array.nbytes for array in arrays]
    ends = _ends(sizes)
    fits = bool(ends) and ends[-1] <= len(slot)
    for array, size, end in zip(arrays if fits else [], sizes, ends, strict=False):
        slot[end - size : end] = array
    pipe.send_bytes(pickle.dumps((fits, sizes, head)))
    for array in [] if fits else arrays:
        pipe.send_bytes(array)
