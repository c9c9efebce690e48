"""A process that answers in turn: arrays in shared memory, slots used again, errors as they were, no hang at an end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.engine.partner import Partner, PartnerEnded

SLOT = 1 << 16


class Stubborn(Exception):
    """One that cannot be handed over."""

    def __reduce__(self) -> Any:
        raise TypeError("never")


class Heard:
    """What is heard of answers."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def note(self, answer: Any) -> None:
        self.sizes.append(len(answer[1]))


def begin(base: int) -> Callable[[str, int], Any]:
    if base < 0:
        raise ConfigError("A base is 0 or more.")

    def answer(what: str, size: int) -> Any:
        if what == "fails":
            raise ConfigError(f"No {size}.")
        if what == "stubborn":
            raise Stubborn("no way")
        if what == "exits":
            sys.exit(f"I stop at {size}.")
        if what == "sleeps":
            time.sleep(size)
        if what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "forks and dies":
            if not os.fork():
                os.execvp("sleep", ["sleep", str(size)]) if base == 6 else time.sleep(size)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return what, np.arange(base, base + size), np.full(size, 7, np.uint8)

    return answer


@pytest.fixture(scope="module")
def partner() -> Iterator[Partner[Any]]:
    made = Partner(begin, 5, slots=3, slot_bytes=SLOT)
    made.begun()
    yield made
    made.close()


def check(answer: Any, size: int) -> None:
    what, numbers, sevens = answer
    assert what == "numbers" and numbers.tolist() == list(range(5, 5 + size)) and sevens.tolist() == [7] * size


def test_answers_come_in_turn_in_slots_or_through_the_pipe_and_slots_are_used_again(partner: Partner[Any]) -> None:
    sizes = [0, 1, 63, 1000, SLOT // 8, SLOT, 17, 5, 900, 2, 3]
    asked = [partner.ask("numbers", size) for size in sizes]
    held = [each.result() for each in reversed(asked)]
    for size, answer in zip(reversed(sizes), held, strict=True):
        check(answer, size)
    del answer, asked, held
    gc.collect()
    assert partner._slots._memory[:3] == b"\1\1\1"


def test_memory_that_somebody_holds_is_not_written_to(partner: Partner[Any]) -> None:
    first = partner.ask("numbers", 100).result()
    part = first[1][10:20]
    del first
    for _ in range(20):
        check(partner.ask("numbers", 2000).result(), 2000)
    assert part.tolist() == list(range(15, 25))


def test_more_is_asked_than_is_under_way_at_once(partner: Partner[Any]) -> None:
    asked = [partner.ask("numbers", i) for i in range(700)]
    for i, each in enumerate(asked):
        check(each.result(), i)


def test_answers_come_together_where_questions_wait_and_are_heard_of_when_they_come(partner: Partner[Any]) -> None:
    heard = Heard()
    asked = [partner.ask("numbers", i, heard=heard.note) for i in range(40)]
    failing = partner.ask("fails", 1, heard=heard.note)
    assert partner.left == 41 and not heard.sizes
    asked[0].result()
    assert heard.sizes == list(range(len(heard.sizes))) and partner.left == 41 - len(heard.sizes) - failing.told
    while not failing.told:
        partner.glance()  # which waits for none
    assert heard.sizes == list(range(40)) and partner.left == 0
    with pytest.raises(ConfigError):
        failing.result()


def test_an_error_is_raised_as_it_was_or_told_in_words_and_work_goes_on(partner: Partner[Any]) -> None:
    with pytest.raises(ConfigError, match=r"No 3\."):
        partner.ask("fails", 3).result()
    with pytest.raises(EngineError, match=r"A worker process failed: Stubborn: no way"):
        partner.ask("stubborn", 3).result()
    with pytest.raises(SystemExit, match=r"I stop at 3\."):
        partner.ask("exits", 3).result()
    check(partner.ask("numbers", 3).result(), 3)


def test_where_answers_take_long_each_comes_when_it_is_there(partner: Partner[Any]) -> None:
    assert partner.ask("sleeps", 1).result()[0] == "sleeps"
    quick, slow = partner.ask("numbers", 3), partner.ask("sleeps", 3)
    check(quick.result(), 3)
    assert not slow.told
    slow.result()


def test_a_fork_that_drops_its_copies_of_answers_frees_no_slot_of_those_who_read_them(partner: Partner[Any]) -> None:
    held = [partner.ask("numbers", 100).result() for _ in range(3)]
    if not (child := os.fork()):
        del held
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert partner._slots._memory[:3] == b"\0\0\0"
    check(partner.ask("numbers", 2000).result(), 2000)
    for answer in held:
        check(answer, 100)


def test_one_that_is_closed_gives_its_memory_back_without_pythons_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        closed, heard = Partner(begin, 5, slots=2, slot_bytes=SLOT), Heard()
        closed.begun()
        asked = [closed.ask("numbers", 10, heard=heard.note) for _ in range(4)]
        assert asked[0].result()[0] == "numbers"
        closed.close()
        memory = weakref.ref(closed._slots._memory)
        closed.process.join(60)
        del closed, asked
        assert memory() is None
    finally:
        gc.enable()


def test_what_cannot_begin_says_why() -> None:
    failing = Partner(begin, -1, slots=1, slot_bytes=SLOT)
    with pytest.raises(ConfigError, match="0 or more"):
        failing.begun()
    with pytest.raises(PartnerEnded):
        failing.ask("numbers", 1).result()
    failing.process.join(60)
    assert failing.process.exitcode == 0


def test_one_that_dies_is_told_and_what_it_gave_stays() -> None:
    dying = Partner(begin, 5, slots=2, slot_bytes=SLOT)
    kept = dying.ask("numbers", 50).result()
    last = dying.ask("dies", 1)
    with pytest.raises(PartnerEnded, match="died"):
        last.result()
    check(kept, 50)
    dying.process.join(60)
    assert dying.process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("base", [5, 6])
def test_one_that_dies_is_told_though_a_process_that_it_has_forked_lives_on(base: int) -> None:
    dying = Partner(begin, base, slots=2, slot_bytes=SLOT)
    dying.begun()
    began, last = time.monotonic(), dying.ask("forks and dies", 60)
    with pytest.raises(PartnerEnded, match="died"):
        last.result()
    assert time.monotonic() - began < 30


def test_who_waits_for_an_answer_is_told_when_another_thread_closes() -> None:
    closed = Partner(begin, 5, slots=1, slot_bytes=SLOT)
    closed.begun()
    asked = closed.ask("numbers", 1)
    check(asked.result(), 1)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            closed.receive()  # nothing was asked, so nothing comes
        except PartnerEnded as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    closed.close()
    waiting.join(60)
    assert len(told) == 1
    closed.process.join(60)
    assert closed.process.exitcode == 0


def test_a_program_that_ends_with_an_open_partner_ends() -> None:
    program = (
        "import os, functools\n"
        "from gristmill.engine.partner import Partner\n"
        "if __name__ == '__main__':\n"
        "    kept = Partner(functools.partial, os.getpid, slots=1, slot_bytes=64)\n"
        "    assert kept.ask().result() != os.getpid()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=120, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


UNGUARDED = """
from gristmill.engine.partner import Partner
Partner(print, b"x" * (1 << 20), slots=1, slot_bytes=1).begun()
"""


def test_a_script_that_starts_workers_whenever_it_is_imported_is_told_so_and_does_not_hang(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and 'below `if __name__ == "__main__":`' in done.stderr
