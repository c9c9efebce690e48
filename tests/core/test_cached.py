"""Properties without a lock."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass

from gristmill.core.cached import cached_property


@dataclass(frozen=True)
class Slow:
    began: threading.Event
    go_on: threading.Event
    numbers: list[int]

    @cached_property
    def number(self) -> int:
        """Takes as long as it is told to."""
        self.began.set()
        self.go_on.wait()
        self.numbers.append(len(self.numbers))
        return self.numbers[-1]


def slow(go_on: bool) -> Slow:
    made = Slow(threading.Event(), threading.Event(), [])
    if go_on:
        made.go_on.set()
    return made


def test_a_property_is_computed_once_for_each_object() -> None:
    one, other = slow(go_on=True), slow(go_on=True)
    assert [one.number, one.number, other.number] == [0, 0, 0] and one.numbers == other.numbers == [0]
    assert Slow.number.__doc__ == "Takes as long as it is told to."


def test_a_process_that_is_forked_while_a_thread_computes_one_does_not_wait_for_it() -> None:
    held = slow(go_on=False)
    thread = threading.Thread(target=lambda: held.number)
    thread.start()
    held.began.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)  # which ends it, if it waits
        os._exit(slow(go_on=True).number)
    held.go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
