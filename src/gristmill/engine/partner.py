"""A process beside this one that answers questions in turn; arrays come back through memory that both of them map.

    partner = Partner(begin, handed, slots=64, slot_bytes=4 << 20)
    asked = partner.ask(1, 2)       # the process calls begin(handed)(1, 2), questions in the order in which they came
    asked.result()                  # its answer, or its error

Answers go back some at a time, where questions wait: to wake another process, and to run code that no cache holds any
more, costs as much for one as for eight. Each is pickled without its arrays, which lie in a slot of the shared memory
for as long as one of them is alive here: no byte goes through a socket, which takes 64 KiB at a time and wakes a thread
for each. What does not fit into a slot, or finds none free, does. The memory has no name, so that a kill leaves nothing
of it.

A byte of that memory tells of each slot whether it is free. The process that answers takes the first one that is, and
only when it has an answer: so slots are as many as answers that nobody is done with, and not as questions.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import socket
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import accumulate, chain, islice
from multiprocessing import reduction, util
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from gristmill.core.arrays import Bytes
from gristmill.core.errors import EngineError
from gristmill.core.watched import end_with
from gristmill.engine.processes import deaf_children

T = TypeVar("T")
Given = ParamSpec("Given")
# Questions under way: the kernel takes as many at once, so that who asks never waits.
_UNDER_WAY = 256
# Arrays begin with a line of the caches.
_LINE = 64
_NO_SLOT = -1
# Answers that go back together, and how old the first of them may be before another is begun. Where one of the last
# took as long, which is forgotten little by little, all go one by one.
_TOGETHER, _PATIENCE_SECONDS, _FORGOTTEN = 8, 0.02, 0.95
# What a message begins with: how long it is. What answers begin with: how many numbers tell of them, which are of each
# its slot, how many arrays it has, and the sizes of these.
_LENGTH = struct.Struct("<q")
# What is taken from a socket at a time.
_TAKEN = 1 << 16
_BEGUN = "A worker process died, perhaps for want of memory."
_NOT_BEGUN = (
    "A worker process ended before it could begin; what it printed above says why. A script that starts workers does "
    'so below `if __name__ == "__main__":`, since each of them imports it.'
)


class PartnerEnded(EngineError):
    """The process has gone, or was told to, before it answered."""


class _Line:
    """Messages through a socket, several of which may come at once."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._come = end, bytearray()
        weakref.finalize(self, end.close)

    def send(self, *parts: bytes | memoryview) -> None:
        """A message of these parts, after it what else has no length of its own."""
        self._socket.sendall(b"".join((_LENGTH.pack(sum(map(len, parts))), *parts)))

    def send_bare(self, memory: memoryview) -> None:
        """Bytes whose number the message before has told."""
        self._socket.sendall(memory)

    def receive(self) -> bytes:
        """The next message; EOFError where the other end has gone."""
        return self.take(*_LENGTH.unpack(self.take(_LENGTH.size)))

    def take(self, count: int) -> bytes:
        """So many bytes."""
        while len(self._come) < count:
            part = self._socket.recv(_TAKEN)
            if not part:
                raise EOFError
            self._come += part
        taken = bytes(memoryview(self._come)[:count])
        del self._come[:count]
        return taken

    @property
    def has_message(self) -> bool:
        """Whether another message has come as a whole, as far as was looked."""
        size = len(self._come)
        return size >= _LENGTH.size and size - _LENGTH.size >= _LENGTH.unpack_from(self._come)[0]

    def look(self) -> bool:
        """Look for what has come, without waiting; whether there is a message."""
        with suppress(OSError):  # there is nothing, or nobody
            self._come += self._socket.recv(_TAKEN, socket.MSG_DONTWAIT)
        return self.has_message


class Asked(Generic[T]):
    """A question; whoever waits for its answer takes in those of all questions before it."""

    def __init__(self, receive: Callable[[], None], heard: Callable[[T], None] | None = None) -> None:
        self._receive, self._heard = receive, heard
        self._answer: tuple[T, BaseException | None] | None = None

    def answered(self, value: T, error: BaseException | None) -> None:
        """Here is its answer."""
        self._answer = value, error
        if self._heard is not None and error is None:
            self._heard(value)

    @property
    def told(self) -> bool:
        """Whether its answer has come."""
        return self._answer is not None

    def result(self) -> T:
        """The answer, or the error that was raised there."""
        while not self.told:
            self._receive()
        assert self._answer
        value, error = self._answer
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
        self._waiting: deque[Asked[Any]] = deque()
        self._beginning: Asked[None] = Asked(_weakly(self.receive))
        self._waiting.append(self._beginning)
        ours, theirs = socket.socketpair()
        self._line = _Line(ours.dup())
        with deaf_children(), theirs:
            answering = (os.getpid(), theirs, self._slots.shared)
            self.process = multiprocessing.get_context("spawn").Process(target=_answer, args=answering)
            self.process.start()
        # Python waits for its processes when it ends, and they for a question: this comes first.
        self.close: Callable[[], None] = util.Finalize(self, _hang_up, (ours,), exitpriority=100)
        with suppress(OSError):  # which whoever receives meets too
            self._line.send(first)

    def begun(self) -> None:
        """Wait until the process can be asked, or raise what kept it from it."""
        self._beginning.result()

    def ask(self, *question: object, heard: Callable[[T], None] | None = None) -> Asked[T]:
        """The process will come to it, after all that was asked before; `heard`, a method, is called with its answer.

        A question that is waiting is held here, and holds nobody: else those who asked, and shared memory, would last
        until Python's collector runs.
        """
        asked: Asked[T] = Asked(_weakly(self.receive), heard and _weakly(heard))
        self._later.append((asked, question))
        self._send()
        return asked

    @property
    def left(self) -> int:
        """How many questions have no answer that has come."""
        return len(self._waiting) + len(self._later)

    def _send(self) -> None:
        while self._later and len(self._waiting) < _UNDER_WAY:
            asked, question = self._later.popleft()
            self._waiting.append(asked)
            with suppress(OSError):  # which whoever receives meets too
                self._line.send(pickle.dumps(question))

    def receive(self) -> None:
        """Wait for the next answers, and take in all that have come."""
        try:
            self._take_in()
            while self._line.has_message:
                self._take_in()
        except (EOFError, OSError) as error:
            raise PartnerEnded(_BEGUN if self._beginning.told else _NOT_BEGUN) from error
        self._send()

    def glance(self) -> None:
        """Take in the answers that have come, and wait for none; where the process has gone, `receive` tells."""
        if self._line.look():
            self.receive()

    def _take_in(self) -> None:
        message = self._line.receive()
        (count,) = _LENGTH.unpack_from(message)
        begin = _LENGTH.size * (1 + count)
        numbers = iter(struct.unpack_from(f"<{count}q", message, _LENGTH.size))
        arrays = list[list[Bytes] | list[bytes]]()
        for slot in numbers:
            sizes = list(islice(numbers, next(numbers)))
            arrays.append([self._line.take(n) for n in sizes] if slot == _NO_SLOT else self._slots.places(slot, sizes))
        found = pickle.Unpickler(BytesIO(memoryview(message)[begin:]), buffers=chain.from_iterable(arrays))
        for _ in arrays:
            self._waiting.popleft().answered(*found.load())  # which a process of ours has pickled


def _weakly(method: Callable[Given, None]) -> Callable[Given, None]:
    """A method whose object may go meanwhile: then there is nobody who could be told."""
    found = weakref.WeakMethod(method)

    def call(*given: Given.args, **named: Given.kwargs) -> None:
        if living := found():
            living(*given, **named)

    return call


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


@dataclass(frozen=True)
class _Shared:
    """Memory of two processes: a byte for each of `count` slots, 1 where it is free, and then the slots."""

    file: _File
    count: int
    size: int

    def opened(self) -> mmap.mmap:
        """The memory, as this process maps it."""
        return mmap.mmap(self.file.descriptor, 0)

    def begin(self, slot: int) -> int:
        """Where a slot begins."""
        return -(-self.count // mmap.PAGESIZE) * mmap.PAGESIZE + slot * self.size


class _Slots:
    """`count` slots of memory that a partner fills; one is free again when the last array in it has gone."""

    def __init__(self, count: int, size: int) -> None:
        self.shared = _Shared(_File(os.memfd_create("gristmill")), count, size)
        os.ftruncate(self.shared.file.descriptor, max(self.shared.begin(count), 1))
        self._memory, self._owner = self.shared.opened(), os.getpid()
        self._memory[:count] = b"\1" * count
        self._used: dict[int, weakref.ref[Bytes]] = {}  # which hear when the last array in a slot has gone

    def places(self, slot: int, sizes: Sequence[int]) -> list[Bytes]:
        """Memory of these sizes in a slot that an answer took; it is free again when they have gone."""
        whole = np.frombuffer(self._memory, np.uint8, self.shared.size, self.shared.begin(slot))
        self._used[slot] = weakref.ref(whole, partial(_set_free, self._memory, self._owner, slot))
        return [whole[end - size : end] for end, size in zip(_ends(sizes), sizes, strict=True)]


def _set_free(memory: mmap.mmap, owner: int, slot: int, _: object) -> None:
    """Nobody reads a slot any more; a process that was forked from its owner only had copies of the arrays in it."""
    if os.getpid() == owner:
        memory[slot] = 1


def _ends(sizes: Sequence[int]) -> list[int]:
    """Where each of these arrays ends in a slot."""
    begins = accumulate((-(-size // _LINE) * _LINE for size in sizes), initial=0)
    return [begin + size for begin, size in zip(begins, sizes, strict=False)]


# What the other process does.


def _answer(parent: int, end: socket.socket, shared: _Shared) -> None:
    end_with(parent)
    os.register_at_fork(after_in_child=end.close)  # else a process that work has forked would keep our death from them
    line, slots = _Line(end), _Free(shared)
    with suppress(EOFError, OSError):  # nobody is there any more
        work, error = _tried(_begin, [line.receive()])
        _reply(line, slots, [(None, error)])
        if work is not None:
            asked = _Asking(line, work)
            while True:
                _reply(line, slots, asked.answers())


class _Asking:
    """Answers the questions that come, some of them together where none of the last ones took long."""

    def __init__(self, line: _Line, work: Callable[..., Any]) -> None:
        self._line, self._work, self._longest = line, work, 0.0

    def answers(self) -> list[tuple[Any, BaseException | None]]:
        """That to the next question, and those to some that wait behind it."""
        found, began = [self._answer()], time.perf_counter()
        while self._line.has_message and len(found) < _TOGETHER and self._is_quick(began):
            found.append(self._answer())
        return found

    def _is_quick(self, began: float) -> bool:
        return max(self._longest, time.perf_counter() - began) < _PATIENCE_SECONDS

    def _answer(self) -> tuple[Any, BaseException | None]:
        question = pickle.loads(self._line.receive())  # which the process that started this one has pickled
        began = time.perf_counter()
        found = _tried(self._work, question)
        self._longest = max(time.perf_counter() - began, _FORGOTTEN * self._longest)
        return found


class _Free:
    """The slots as the process that fills them has them."""

    def __init__(self, shared: _Shared) -> None:
        self._shared, self._memory = shared, shared.opened()
        self._view = memoryview(self._memory)

    def filled(self, arrays: Sequence[memoryview], sizes: Sequence[int]) -> int:
        """The first free slot, with these arrays in it; _NO_SLOT where all are used, or they are too large or none."""
        ends, shared = _ends(sizes), self._shared
        slot = self._memory.find(b"\1", 0, shared.count) if ends and 0 < ends[-1] <= shared.size else _NO_SLOT
        if slot == _NO_SLOT:
            return slot
        self._memory[slot] = 0
        begin = shared.begin(slot)
        for array, size, end in zip(arrays, sizes, ends, strict=True):
            self._view[begin + end - size : begin + end] = array
        return slot


def _begin(handed: bytes) -> Callable[..., Any]:
    """What answers questions."""
    begin, arguments = pickle.loads(handed)  # which the process that started this one has pickled
    answering: Callable[..., Any] = begin(*arguments)
    return answering


def _tried(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, BaseException | None]:
    """What a function gives, or its error, whatever it is; one that cannot be handed over, in words."""
    try:
        return function(*arguments), None
    except BaseException as error:
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return None, error
        return None, EngineError(f"A worker process failed: {type(error).__name__}: {error}")


def _reply(line: _Line, slots: _Free, answers: list[tuple[Any, BaseException | None]]) -> None:
    """Send answers, the arrays of each in a slot if there is one that they fit into."""
    numbers, sent, buffers = list[int](), list[memoryview](), list[pickle.PickleBuffer]()
    written = BytesIO()
    pickler = pickle.Pickler(written, protocol=5, buffer_callback=buffers.append)
    for answer in answers:
        pickler.dump(answer)
        arrays = [buffer.raw() for buffer in buffers]
        sizes = [array.nbytes for array in arrays]
        buffers.clear()
        slot = slots.filled(arrays, sizes)
        numbers += slot, len(sizes), *sizes
        sent += arrays if slot == _NO_SLOT else ()
    line.send(_LENGTH.pack(len(numbers)), struct.pack(f"<{len(numbers)}q", *numbers), written.getbuffer())
    for array in sent:
        line.send_bare(array)
