"""Memory that is used again when nobody holds it, up to a bound."""

import numpy as np

from gristmill.loader.buffers import Buffers


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_no_view_of_it_is_left():
    buffers = Buffers(1 << 20)
    view = buffers.empty("ids", (4, 8), np.int64)[2]
    assert address(buffers.empty("ids", (4, 8), np.int64)) != address(view[:0]) - 2 * 8 * 8
    first = address(view) - 2 * 8 * 8
    del view
    assert address(buffers.empty("ids", (4, 8), np.int64)) == first


def test_two_shapes_in_turn_keep_their_memory():
    buffers = Buffers(1 << 20)
    found = [address(buffers.empty("ids", (rows, 64), np.int64)) for rows in (4, 8) * 3]
    assert len(set(found)) == 2


def test_what_is_kept_is_bounded_and_held_arrays_stay_whole():
    buffers = Buffers(10 * 800)
    held = []
    for i in range(35):
        held.append(buffers.empty("ids", (100,), np.int64))
        held[-1][:] = i
        assert sum(len(pool) for pool in buffers._pools.values()) <= 10
    assert all((array == i).all() for i, array in enumerate(held))


def test_memory_of_another_type_is_not_used_again():
    buffers = Buffers(1 << 20)
    buffers.empty("ids", (2, 3), np.int64)  # given back at once
    assert buffers.empty("ids", (2, 3), np.int32).dtype == np.int32
