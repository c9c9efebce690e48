"""Threads for what waits on a network: as many as there is work for, up to a bound, and none where there is none.

Nothing has to be closed: a thread that finds no work waits a little for some, since to start one costs more than to ask
for a block, and ends. What is urgent goes before what is done ahead of time, and of the latter nothing more is begun
once the program is ending.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gristmill.core.locks import Lock

Task = Callable[[], None]
# Seconds that a thread without work stays, and that the end of a program may wait for it.
_STAY = 0.1


@dataclass(eq=False, slots=True)
class _Rest:
    """A thread without work: `called` is locked until it shall go on, or end if `ends` is set."""

    called: threading.Lock = field(default_factory=threading.Lock)
    ends: bool = False


def fewer_of(most: int) -> int:
    """How many of `most` tasks at a time are run while none is urgent."""
    return -(-most // 2)


class Workers:
    """Runs tasks, which raise nothing, `most` at a time, and half as many while none is urgent.

    Those that are waited for would share what the network gives with more of the others. Safe to call from many
    threads; empty after a fork.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._fewer, self._name, self._lock = most, fewer_of(most), name, Lock()
        self._begin()

    def _begin(self) -> None:
        self._owner, self._running = os.getpid(), 0
        self._idle: list[_Rest] = []
        self._threads: list[threading.Thread] = []
        self._urgent: deque[Task] = deque()
        self._ahead: deque[Task] = deque()

    def submit(self, task: Task, *, ahead: bool = False) -> None:
        """Run a task soon, or when nothing urgent is left."""
        with self._lock:
            if self._owner != os.getpid():
                self._begin()
            (self._ahead if ahead else self._urgent).append(task)
            self._employ(self._fewer if ahead else self._most)

    def _employ(self, most: int) -> None:
        if self._running >= most:
            return
        if self._idle:
            self._idle.pop().called.release()
        else:
            thread = threading.Thread(target=self._work, name=self._name)
            thread.start()
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        self._running += 1

    def hurry(self, task: Task) -> None:
        """Let a task that waits among those ahead of time be urgent."""
        with self._lock:
            if task in self._ahead:
                self._ahead.remove(task)
                self._urgent.append(task)
                self._employ(self._most)

    def withdraw(self, tasks: set[Task]) -> set[Task]:
        """Take back those of these tasks that have not begun and are not urgent."""
        with self._lock:
            found = tasks.intersection(self._ahead)
            self._ahead = deque(task for task in self._ahead if task not in found)
            return found

    def take(self, task: Task) -> bool:
        """Take back a task, urgent or not, if it has not begun."""
        with self._lock:
            for waiting in (self._ahead, self._urgent):
                if task in waiting:
                    waiting.remove(task)
                    return True
        return False

    def _work(self) -> None:
        rest = _Rest()
        rest.called.acquire()
        while (task := self._next(rest)) or self._goes_on(rest):
            if task:
                task()

    def _next(self, rest: _Rest) -> Task | None:
        with self._lock:
            if self._urgent:
                return self._urgent.popleft()
            if self._ahead and self._running <= self._fewer and threading.main_thread().is_alive():
                return self._ahead.popleft()
            self._running -= 1
            self._idle.append(rest)
            return None

    def _goes_on(self, rest: _Rest) -> bool:
        """Whether an idle thread is called for more before long."""
        if not rest.called.acquire(timeout=_STAY):
            with self._lock:
                if rest in self._idle:
                    self._idle.remove(rest)
                    return False
            rest.called.acquire()  # it was called just now
        return not rest.ends

    def join(self) -> None:
        """Wait until all threads that run now have ended."""
        with self._lock:
            threads = self._threads if self._owner == os.getpid() else []
            while threads and self._idle:
                rest = self._idle.pop()
                rest.ends = True
                rest.called.release()
        for thread in threads:
            thread.join()
