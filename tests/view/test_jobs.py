"""Searches beside the pages: one at a time, asked for again without a second search, stopped and begun again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from gristmill.core.errors import ConfigError
from gristmill.view.jobs import Job, Jobs

PATIENCE = 60


class Gated:
    """Work that goes on by one piece for each time that it is let."""

    def __init__(self) -> None:
        self.gate, self.done = threading.Semaphore(0), 0

    def __iter__(self) -> Iterator[None]:
        while self.gate.acquire(timeout=PATIENCE):
            self.done += 1
            yield


def end(job: Job[Gated]) -> None:
    job.wait(PATIENCE)
    assert job.done


def test_the_same_search_is_begun_once_and_another_ends_it() -> None:
    jobs, first, second = Jobs(), Gated(), Gated()
    job = jobs.get("a", lambda: first)
    assert jobs.get("a", Gated) is job and not job.done
    other = jobs.get("b", lambda: second)
    first.gate.release()  # the piece at which it is
    end(job)
    assert job.stopped and not other.done and first.done == 1
    jobs.stop()
    second.gate.release()
    end(other)


def test_a_search_that_was_stopped_stays_so_until_it_is_asked_for_again() -> None:
    jobs, work = Jobs(), Gated()
    job = jobs.get("a", lambda: work)
    jobs.stop()
    work.gate.release()
    end(job)
    assert jobs.get("a", Gated, again=False) is job
    again = jobs.get("a", list)
    assert again is not job
    end(again)
    assert not again.stopped


def test_an_error_is_kept_as_its_sentence() -> None:
    def broken() -> Iterator[None]:
        yield
        raise ConfigError("It cannot be done.")

    job = Job(broken())
    end(job)
    assert job.error == "It cannot be done." and not job.stopped


def test_few_are_kept() -> None:
    jobs, made = Jobs(), []
    for name in range(20):
        job = jobs.get(name, list)
        end(job)
        made.append(job)
    assert jobs.get(19, list) is made[19] and jobs.get(0, list) is not made[0]
