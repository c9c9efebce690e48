"""Compiled loops over tables of plain buffers: no file, store or plan is needed for them."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.loader.fill import NO_DOCUMENTS
from gristmill.store.kernels import assemble, bin_pieces, document_spans, untrusted_blocks

NOTHING = np.empty((0, 0), np.int32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i8"])
def test_pieces_are_gathered_across_buffers_of_any_width(dtype: str) -> None:
    first, second = np.arange(10).astype(dtype), np.arange(10, 20).astype(dtype)
    size = first.itemsize
    shards = ints(0, 8, 18), ints(first.ctypes.data, second.ctypes.data), ints(2 * size, 0), ints(size, size)
    inputs, labels = np.empty((2, 4), np.int64), np.empty((2, 4), np.int64)
    pieces = ints(0, 1, 2), ints(0, 0), ints(6, 12), ints(4, 3), np.array([True, False])
    assemble(shards, NO_DOCUMENTS, *pieces, False, 99, False, inputs, labels, np.empty((0, 0), np.bool_), NOTHING,
             NOTHING, NOTHING, ints())  # fmt: skip
    assert inputs.tolist() == [[8, 9, 10, 11], [14, 15, 16, 99]]
    assert labels.tolist() == [[9, 10, 11, 12], [15, 16, -100, -100]]


def test_spans_of_documents_end_where_the_next_begins_or_the_shard_ends() -> None:
    pointers = ints(0, 6, 8)  # bytes of tokens of 2: documents of 3, 1 and 2 tokens in a shard of 6
    table = ints(0, 6), ints(2), ints(0, 3), ints(pointers.ctypes.data), ints(0), ints(0)
    spans = np.empty((3, 2), np.int64)
    document_spans(table, ints(0, 1, 2), spans)
    assert spans.tolist() == [[0, 3], [3, 4], [4, 6]]


def test_documents_of_several_sequences_are_found_by_their_marks() -> None:
    index = ints(0, 6, 8, 0, 2, 3, 3)  # three sequences, then the first sequence of three documents, and the end
    table = ints(0, 6), ints(2), ints(0, 3), ints(index.ctypes.data), ints(0), ints(24)
    spans = np.empty((3, 2), np.int64)
    document_spans(table, ints(0, 1, 2), spans)
    assert spans.tolist() == [[0, 4], [4, 6], [6, 6]]  # the last one is empty


def test_only_blocks_whose_bit_is_missing_are_named() -> None:
    pieces = ints(0, 100), ints(0, 13), ints(3), np.array([0b10, 0], np.uint8), ints(0, 10, 95), ints(9, 1, 5)
    found = np.empty(8, np.int64)
    count = untrusted_blocks(*pieces, found)
    assert count == untrusted_blocks(*pieces, ints()) == 3 and found[:count].tolist() == [0, 11, 12]


def test_bins_of_a_range_that_was_not_checked_are_not_looked_into() -> None:
    arrays = [ints(0, 2), ints(0, 2), ints(0), ints(2)]
    columns = [np.zeros(2, np.uint32), np.array([0, 1], np.uint32), np.array([0, 1], np.uint32)]
    for array in (*arrays, *columns):
        array.flags.writeable = False
    out = [ints(), ints(), ints()]
    assert bin_pieces(np.array([False]), *arrays, *columns, ints(0, 1), *out) == -1
    assert bin_pieces(np.array([True]), *arrays, *columns, ints(0, 1), *out) == 2
