"""Threads are there while there is work, what is urgent goes first, and none is left idle."""

from __future__ import annotations

import threading

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
