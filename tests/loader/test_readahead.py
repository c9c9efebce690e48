"""Threads that build ahead: in order, within a bound, and gone when they are told to go."""

import itertools
import threading

import pytest

from gristmill.loader.readahead import ReadAhead


def groups(count):
    return iter([range(3 * i, 3 * i + 3) for i in range(count)])


@pytest.mark.parametrize("threads", [1, 3])
def test_items_come_in_the_order_of_their_groups(threads):
    assert list(ReadAhead(list, groups(20), threads, depth=4)) == list(range(60))


def test_no_more_groups_are_begun_than_the_bound_allows():
    begun = []
    ahead = ReadAhead(lambda group: begun.append(group.start) or list(group), groups(20), threads=2, depth=3)
    items = iter(ahead)
    assert next(items) == 0
    ahead.close(wait=True)
    assert len(begun) <= 1 + 3


def test_an_error_of_a_thread_reaches_the_reader_in_its_turn():
    def build(group):
        if group.start == 6:
            raise OSError("the disk is gone")
        return list(group)

    items = iter(ReadAhead(build, groups(5), threads=2, depth=2))
    assert list(itertools.islice(items, 6)) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)


def test_closing_ends_the_threads():
    threads = set[threading.Thread]()

    def build(group: range) -> list[int]:
        threads.add(threading.current_thread())
        return list(group)

    ahead = ReadAhead(build, groups(50), threads=2, depth=4)
    next(iter(ahead))
    ahead.close(wait=True)
    assert threads and not any(thread.is_alive() for thread in threads)
