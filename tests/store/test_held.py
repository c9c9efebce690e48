"""Memory of extents is used again when its last reader has let go of it, and never before."""

from __future__ import annotations

import threading

import numpy as np

from gristmill.store.held import Held, Shelf, SpareMemory

SIZE = 1 << 16


def test_memory_is_used_again_only_after_the_last_reference_to_it_is_gone() -> None:
    spare = SpareMemory(SIZE)
    held = spare.taken(SIZE - 5)
    address, reader = held.address, held
    del held
    others = [spare.taken(SIZE) for _ in range(100)]
    assert address not in {other.address for other in others}
    assert len(reader.memory) == SIZE - 5
    del reader
    assert spare.taken(SIZE).address == address


def test_what_is_small_or_too_large_for_a_slot_has_memory_of_its_own() -> None:
    spare = SpareMemory(SIZE)
    for size in (0, 10, SIZE // 2, SIZE + 1):
        held = spare.taken(size)
        assert len(held.memory) == size
        del held
        assert not spare._slots


def test_what_is_smaller_has_a_slot_where_that_is_said() -> None:
    spare = SpareMemory(SIZE, 10)
    few, more = spare.taken(10), spare.taken(11)
    address = more.address
    del few, more
    assert len(spare._slots) == 1 and spare.taken(SIZE).address == address


def test_memory_that_came_from_elsewhere_is_never_given_to_others() -> None:
    spare = SpareMemory(4)
    memory = np.arange(4, dtype=np.uint8)
    assert Held(memory).address == memory.ctypes.data
    assert spare.taken(4).address != memory.ctypes.data


def test_threads_never_have_the_same_memory_at_the_same_time() -> None:
    spare, wrong = SpareMemory(256), list[int]()

    def use(number: int) -> None:
        for _ in range(300):
            held = [spare.taken(256) for _ in range(3)]
            for one in held:
                one.memory[:] = number
            wrong.extend(number for one in held if (one.memory != number).any())

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_shelf_knows_its_bytes_and_lets_the_longest_unused_go() -> None:
    shelf = Shelf()
    for number in range(4):
        shelf.put(number, Held(np.zeros(10, dtype=np.uint8)))
    shelf.move_to_end(0)
    assert shelf.taken(2) and shelf.taken(2) is None and shelf.bytes == 30
    shelf.shrink(25)
    assert list(shelf) == [3, 0] and shelf.bytes == 20
    shelf.shrink(-1)
    assert not shelf and shelf.bytes == 0


def test_memory_begins_where_a_line_of_the_caches_does() -> None:
    spare = SpareMemory(SIZE)
    assert all(spare.taken(size).address % 64 == 0 for size in (1, 100, SIZE - 7, SIZE, SIZE + 1))
