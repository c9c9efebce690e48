"""Threads are there while there is work and a little longer, what is urgent goes first, and none stays for ever."""

from __future__ import annotations

import threading

import pytest

from gristmill.places import workers as module
from gristmill.places.workers import Workers


def named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_all_tasks_are_run_by_no_more_threads_than_allowed_and_none_outlives_them() -> None:
    workers, busy, most, done = Workers(3, "test-some"), set[int](), list[int](), list[int]()
    together = threading.Barrier(3)

    def task(i: int) -> None:
        busy.add(i)
        if i < 3:
            together.wait(60)
        most.append(len(busy))
        done.append(i)
        busy.discard(i)

    for i in range(50):
        workers.submit(lambda i=i: task(i))  # type: ignore[misc]
    workers.join()
    assert sorted(done) == list(range(50)) and max(most) == 3 and not named("test-some")


def test_what_is_urgent_goes_before_what_is_ahead_of_time_and_that_can_be_hurried_or_withdrawn() -> None:
    workers, done, gate = Workers(1, "test-order"), list[str](), threading.Event()
    workers.submit(lambda: done.append(str(gate.wait(60))))
    tasks = {name: (lambda name=name: done.append(name)) for name in ("late", "hurried", "gone")}  # type: ignore[misc]
    for task in tasks.values():
        workers.submit(task, ahead=True)
    workers.submit(lambda: done.append("urgent"))
    workers.hurry(tasks["hurried"])
    assert workers.withdraw({tasks["gone"]}) == {tasks["gone"]}
    gate.set()
    workers.join()
    assert done == ["True", "urgent", "hurried", "late"]


def test_a_task_that_has_not_begun_is_taken_back_once_urgent_or_not() -> None:
    workers, done, gate = Workers(1, "test-take"), list[str](), threading.Event()
    begun = threading.Event()
    tasks = {name: (lambda name=name: done.append(name)) for name in ("ahead", "urgent", "left")}  # type: ignore[misc]

    def first() -> None:
        begun.set()
        gate.wait(60)

    workers.submit(first)
    for name, task in tasks.items():
        workers.submit(task, ahead=name == "ahead")
    assert begun.wait(60) and not workers.take(first)
    assert all(workers.take(tasks[name]) and not workers.take(tasks[name]) for name in ("ahead", "urgent"))
    gate.set()
    workers.join()
    assert done == ["left"]


def test_what_is_ahead_of_time_has_half_of_the_threads_until_it_is_hurried() -> None:
    workers, gate, begun = Workers(4, "test-half"), threading.Event(), threading.Semaphore(0)

    def task() -> None:
        begun.release()
        gate.wait(60)

    tasks = [lambda: task() for _ in range(4)]  # four, and not one four times
    for each in tasks:
        workers.submit(each, ahead=True)
    assert all(begun.acquire(timeout=60) for _ in range(2)) and len(named("test-half")) == 2
    for each in tasks[2:]:
        workers.hurry(each)
    assert all(begun.acquire(timeout=60) for _ in range(2))
    gate.set()
    workers.join()


def test_a_thread_without_work_takes_the_next_task_and_ends_when_it_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STAY", 3600)
    workers, ran, done = Workers(4, "test-stay"), list[int](), threading.Semaphore(0)

    def task() -> None:
        ran.append(threading.get_ident())
        done.release()

    for _ in range(20):
        workers.submit(task)
        assert done.acquire(timeout=60)
        while workers._running:
            pass
    assert len(set(ran)) == 1 and len(named("test-stay")) == 1
    workers.join()
    assert not named("test-stay")


@pytest.mark.parametrize("stay", [0, 1e-5, 1e-3])
def test_a_thread_that_is_about_to_end_loses_no_task(monkeypatch: pytest.MonkeyPatch, stay: float) -> None:
    monkeypatch.setattr(module, "_STAY", stay)
    workers, done = Workers(3, "test-end"), threading.Semaphore(0)
    for i in range(500):
        workers.submit(lambda: done.release(), ahead=i % 3 == 0)
        assert i % 5 or all(done.acquire(timeout=60) for _ in range(1 if i == 0 else 5))
    assert all(done.acquire(timeout=60) for _ in range(4))
    for thread in named("test-end"):  # nobody has to join them
        thread.join(60)
    assert not named("test-end") and not workers._running
