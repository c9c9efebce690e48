"""Batches from any shard table: here plain buffers in memory, with no plan, no store and no file in sight."""

import itertools

import numpy as np
import pytest

from gristmill.loader.fill import IGNORED, NO_DOCUMENTS, Filler
from gristmill.loader.pieces import Pieces

EOS = 99


def table_of(buffers):
    """A shard table over arrays, which must live as long as it is read."""
    starts = np.array([0, *itertools.accumulate(len(buffer) for buffer in buffers)])
    addresses = np.array([buffer.ctypes.data for buffer in buffers])
    return starts, addresses, np.zeros_like(addresses), np.array([buffer.itemsize for buffer in buffers])


def pieces_of(*pieces):
    """(row, column, position, length, follows) each."""
    rows, columns, positions, lengths, follows = (np.array(column) for column in zip(*pieces, strict=True))
    return Pieces(rows, columns, positions, lengths, follows.astype(bool), np.zeros_like(rows))


def filled(buffers, pieces, rows, seq_len, keys, by_piece=False, max_docs=None, past_caches=False):
    how = {"by_piece": by_piece, "max_docs": max_docs, "buffer_bytes": 1 << 20, "past_caches": past_caches}
    filler = Filler(keys, eos=EOS, **how)
    edges = pieces.edges(rows)
    return filler.fill(table_of(buffers), NO_DOCUMENTS, pieces, edges, seq_len, seq_len)


@pytest.fixture
def buffers():
    """Token 10 * i + j is the j-th of buffer i; each has a type of its own."""
    return [(10 * i + np.arange(5)).astype(dtype) for i, dtype in enumerate(("u1", "u2", "u4", "i8"))]


def test_rows_run_across_buffers_of_any_type(buffers):
    batch, _ = filled(buffers, pieces_of((0, 0, 0, 10, True), (1, 0, 10, 10, False)), 2, 10, ["input_ids", "labels"])
    stream = np.concatenate(buffers).astype(np.int64)
    assert np.array_equal(batch["input_ids"], stream.reshape(2, 10))
    assert batch["labels"].tolist() == [stream[1:11].tolist(), [*stream[11:].tolist(), IGNORED]]


def test_packed_pieces_are_documents_and_the_rest_of_a_row_is_padding(buffers):
    keys = ["input_ids", "labels", "loss_mask", "doc_ids", "position_ids", "cu_seqlens", "attention_mask"]
    batch, merged = filled(
        buffers, pieces_of((0, 0, 5, 3, False), (0, 3, 0, 2, True)), 1, 6, keys, by_piece=True, max_docs=3
    )
    assert {key: array[0].tolist() for key, array in batch.items()} == {
        "input_ids": [10, 11, 12, 0, 1, EOS],
        "labels": [11, 12, IGNORED, 1, 2, IGNORED],
        "loss_mask": [False, True, True, False, True, False],
        "doc_ids": [0, 0, 0, 1, 1, -1],
        "position_ids": [0, 1, 2, 0, 1, 0],
        "cu_seqlens": [0, 3, 5, 6],
        "attention_mask": [1, 1, 1, 1, 1, 0],
    }
    assert merged.tolist() == [0]


def test_documents_that_find_no_room_are_counted_row_by_row(buffers):
    three = [(0, 0, 0, 2, False), (0, 2, 5, 2, False), (0, 4, 10, 2, False)]
    two = [(1, 0, 0, 3, False), (1, 3, 5, 3, False)]
    keys = ["input_ids", "cu_seqlens"]
    batch, merged = filled(buffers, pieces_of(*three, *two), 2, 6, keys, by_piece=True, max_docs=2)
    assert merged.tolist() == [1, 0]
    assert batch["cu_seqlens"].tolist() == [[0, 2, 6], [0, 3, 6]]


def test_memory_is_used_again_once_nobody_has_it(buffers):
    filler = Filler(["input_ids"], eos=EOS, by_piece=False, max_docs=None, buffer_bytes=1 << 20)
    pieces, table = pieces_of((0, 0, 0, 5, False)), table_of(buffers)
    places = [filler.fill(table, NO_DOCUMENTS, pieces, pieces.edges(1), 5, 5)[0]["input_ids"].ctypes.data for _ in "ab"]
    assert places[0] == places[1]


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i8"])
@pytest.mark.parametrize("keys", [["input_ids"], ["input_ids", "labels", "loss_mask"]])
def test_what_is_written_past_the_caches_is_the_same(dtype, keys):
    rng = np.random.default_rng(0)
    buffers = [rng.integers(0, 100, size).astype(dtype) for size in (3, 1, 50, 200, 9)]
    for seq_len in (1, 7, 8, 23, 64, 130):
        rows = [
            [(row, 0, start, cut, True), (row, cut, start + 5, seq_len - cut, False)]
            for row, (start, cut) in enumerate([(0, seq_len // 3), (1, seq_len // 2), (60, 0), (2, seq_len)])
        ]
        pieces = pieces_of(*(piece for pair in rows for piece in pair if piece[3]))
        plain, past = (filled(buffers, pieces, 5, seq_len, keys, past_caches=past)[0] for past in (False, True))
        stream = np.concatenate(buffers).astype(np.int64)
        assert all(np.array_equal(plain[key], past[key]) for key in keys)
        for row, column, position, length, follows in (piece for pair in rows for piece in pair):
            inside = slice(column, column + length)
            assert np.array_equal(past["input_ids"][row, inside], stream[position : position + length])
            if "labels" in keys and length:
                labels = [*stream[position + 1 : position + length], stream[position + length] if follows else IGNORED]
                assert past["labels"][row, inside].tolist() == labels
        assert (past["input_ids"][4] == EOS).all()
