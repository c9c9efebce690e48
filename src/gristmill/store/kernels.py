"""Compiled loops over mapped bytes. Importing this module imports Numba (0.2 s), so import it where it is used.

Tokens and document indices are read from raw addresses: a table of 10,000 shards is three integer columns, and one
call without the GIL serves a whole batch. The first call on a machine compiles (about 5 s for all, kept on disk).

A *shard table* is (starts, addresses, headers, itemsizes): shard i holds positions [starts[i], starts[i + 1]).
A *document table* is (doc_starts, addresses, pointers_at, marks_at): shard i holds documents [doc_starts[i],
doc_starts[i + 1]); marks_at[i] is 0 where each document is one sequence of its `.idx`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from gristmill.core.compiled import compiled


def _pointer_to(typing_context: Any, address: Any, dtype: Any) -> Any:
    """An integer address as a pointer to `dtype`."""
    pointer = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64, dtype), generate


_pointer: Any = intrinsic(_pointer_to)


def _unaligned_int64(typing_context: Any, address: Any) -> Any:
    """A possibly unaligned int64: Megatron's arrays follow a header of 34 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))
        return builder.load(pointer, align=1)

    return types.int64(types.int64), generate


_int64_at: Any = intrinsic(_unaligned_int64)


@compiled
def shard_of(starts: Any, position: int) -> Any:
    """The shard that holds a position: the last i with starts[i] <= position, empty shards passed over."""
    low, high = 0, starts.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= position:
            low = middle
        else:
            high = middle
    return low


@compiled
def _widen(address: int, itemsize: int, count: int, out: Any) -> None:
    """Copy `count` ids of 1, 2, 4 or 8 bytes into int64."""
    if itemsize == 2:
        two = carray(_pointer(address, np.uint16), (count,))
        for j in range(count):
            out[j] = two[j]
    elif itemsize == 4:
        four = carray(_pointer(address, np.uint32), (count,))
        for j in range(count):
            out[j] = four[j]
    elif itemsize == 1:
        one = carray(_pointer(address, np.uint8), (count,))
        for j in range(count):
            out[j] = one[j]
    else:
        eight = carray(_pointer(address, np.int64), (count,))
        for j in range(count):
            out[j] = eight[j]


@compiled
def copy_tokens(starts: Any, addresses: Any, headers: Any, itemsizes: Any, position: int, out: Any) -> None:
    """Fill `out` with the tokens from `position` on, across shards where it must."""
    shard = shard_of(starts, position)
    done = 0
    while done < out.size:
        inside = position + done - starts[shard]
        count = min(out.size - done, starts[shard + 1] - position - done)
        if count > 0:
            address = addresses[shard] + headers[shard] + inside * itemsizes[shard]
            _widen(address, itemsizes[shard], count, out[done : done + count])
        done += count
        shard += 1


@compiled
def gather(
    starts: Any,
    addresses: Any,
    headers: Any,
    itemsizes: Any,
    rows: Any,
    columns: Any,
    positions: Any,
    lengths: Any,
    out: Any,
) -> None:
    """Copy piece i, tokens [positions[i], + lengths[i]), to out[rows[i], columns[i]:]."""
    for i in range(rows.size):
        column = columns[i]
        copy_tokens(starts, addresses, headers, itemsizes, positions[i], out[rows[i], column : column + lengths[i]])


@compiled
def next_tokens(
    starts: Any, addresses: Any, headers: Any, itemsizes: Any,
    rows: Any, columns: Any, positions: Any, lengths: Any, follows: Any, inputs: Any, labels: Any,
) -> None:  # fmt: skip
    """Labels: inside a piece the next input; at its end the token that follows in the store, or -100 if none does."""
    edge = np.empty(1, np.int64)
    for i in range(rows.size):
        row, first, last = rows[i], columns[i], columns[i] + lengths[i] - 1
        for j in range(first, last):
            labels[row, j] = inputs[row, j + 1]
        edge[0] = -100
        if follows[i]:
            copy_tokens(starts, addresses, headers, itemsizes, positions[i] + lengths[i], edge)
        labels[row, last] = edge[0]


@compiled
def _document_start(address: int, pointers_at: int, marks_at: int, itemsize: int, document: int) -> Any:
    """Where document `document` of a shard begins, in tokens of the shard."""
    sequence = _int64_at(address + marks_at + 8 * document) if marks_at else document
    return _int64_at(address + pointers_at + 8 * sequence) // itemsize


@compiled
def document_spans(
    starts: Any,
    itemsizes: Any,
    doc_starts: Any,
    addresses: Any,
    pointers_at: Any,
    marks_at: Any,
    documents: Any,
    spans: Any,
) -> None:
    """spans[i] = the positions [first, end) of document documents[i]."""
    for i in range(documents.size):
        shard = shard_of(doc_starts, documents[i])
        base, local = starts[shard], documents[i] - doc_starts[shard]
        address, pointers, marks = addresses[shard], pointers_at[shard], marks_at[shard]
        spans[i, 0] = base + _document_start(address, pointers, marks, itemsizes[shard], local)
        if documents[i] + 1 < doc_starts[shard + 1]:
            spans[i, 1] = base + _document_start(address, pointers, marks, itemsizes[shard], local + 1)
        else:
            spans[i, 1] = starts[shard + 1]


@compiled
def document_at(
    starts: Any,
    itemsizes: Any,
    doc_starts: Any,
    addresses: Any,
    pointers_at: Any,
    marks_at: Any,
    shard: int,
    inside: int,
) -> Any:
    """The document of a shard (counted there) that holds its token `inside`, by bisection of the index."""
    low, high = 0, doc_starts[shard + 1] - doc_starts[shard]
    while high - low > 1:
        middle = (low + high) // 2
        start = _document_start(addresses[shard], pointers_at[shard], marks_at[shard], itemsizes[shard], middle)
        if start <= inside:
            low = middle
        else:
            high = middle
    return low


@compiled
def _next_end(
    starts: Any,
    itemsizes: Any,
    doc_starts: Any,
    addresses: Any,
    pointers_at: Any,
    marks_at: Any,
    shard: int,
    document: int,
) -> Any:
    """Where document `document` of a shard ends, as a position."""
    if document + 1 >= doc_starts[shard + 1] - doc_starts[shard]:
        return starts[shard + 1]
    start = _document_start(addresses[shard], pointers_at[shard], marks_at[shard], itemsizes[shard], document + 1)
    return starts[shard] + start


@compiled
def document_ends(
    starts: Any, itemsizes: Any, doc_starts: Any, addresses: Any, pointers_at: Any, marks_at: Any,
    rows: Any, columns: Any, positions: Any, lengths: Any, ends: Any, counts: Any,
) -> None:  # fmt: skip
    """For rows that are stretches of the stream: ends[row, :counts[row]], the columns at which a document ends.

    The last end of a piece is its own; `counts` must come in as zeros.
    """
    for i in range(rows.size):
        row, first, end = rows[i], positions[i], positions[i] + lengths[i]
        shard = shard_of(starts, first)
        document = document_at(
            starts, itemsizes, doc_starts, addresses, pointers_at, marks_at, shard, first - starts[shard]
        )
        at = first
        while at < end:
            after = _next_end(starts, itemsizes, doc_starts, addresses, pointers_at, marks_at, shard, document)
            if after > at:
                at = min(after, end)
                ends[row, counts[row]] = columns[i] + at - first
                counts[row] += 1
            document += 1
            if document >= doc_starts[shard + 1] - doc_starts[shard]:
                shard, document = shard + 1, 0


@compiled
def fill_tails(out: Any, filled: Any, value: Any) -> None:
    """out[row, filled[row]:] = value."""
    for row in range(filled.size):
        for j in range(filled[row], out.shape[1]):
            out[row, j] = value


@compiled
def fill_documents(ends: Any, counts: Any, doc_ids: Any) -> None:
    """doc_ids[row]: the ordinal of each token's document in its row, as far as documents reach."""
    for row in range(counts.size):
        column = 0
        for k in range(counts[row]):
            for j in range(column, ends[row, k]):
                doc_ids[row, j] = k
            column = ends[row, k]


@compiled
def fill_positions(ends: Any, counts: Any, position_ids: Any) -> None:
    """position_ids[row]: 0 at the row's start and after each boundary; padding counts as one more stretch."""
    seq_len = position_ids.shape[1]
    for row in range(counts.size):
        column = 0
        for k in range(counts[row] + 1):
            end = ends[row, k] if k < counts[row] else seq_len
            for j in range(column, end):
                position_ids[row, j] = j - column
            column = end


@compiled
def fill_cu_seqlens(ends: Any, counts: Any, seq_len: int, cu_seqlens: Any) -> Any:
    """cu_seqlens[row]: 0, each boundary, then seq_len; returns how many stretches found no room and were merged."""
    room, merged = cu_seqlens.shape[1], 0
    for row in range(counts.size):
        cu_seqlens[row, 0] = 0
        at = 1
        for k in range(counts[row]):
            if ends[row, k] == seq_len:
                break
            if at < room - 1:
                cu_seqlens[row, at] = ends[row, k]
                at += 1
            else:
                merged += 1
        for j in range(at, room):
            cu_seqlens[row, j] = seq_len
    return merged


@compiled
def _last_at_most(values: Any, wanted: int) -> Any:
    """The last i with values[i] <= wanted, by bisection of a rising array."""
    low, high = 0, values.size
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] <= wanted:
            low = middle
        else:
            high = middle
    return low


@compiled
def bin_pieces(
    range_bins: Any, range_docs: Any, range_full: Any, range_pieces: Any,
    full_before: Any, order: Any, piece_starts: Any, bins: Any, rows: Any, documents: Any, windows: Any,
) -> Any:  # fmt: skip
    """The pieces of each bin: row, document and which window of it (-1: the remainder). Returns how many there are.

    With empty `rows` it only counts: call twice.
    """
    found = 0
    for i in range(bins.size):
        r = _last_at_most(range_bins, bins[i])
        local, first = bins[i] - range_bins[r], range_docs[r]
        if local < range_full[r]:
            document = _last_at_most(full_before[first : range_docs[r + 1]], local)
            if rows.size:
                rows[found], documents[found] = i, first + document
                windows[found] = local - full_before[first + document]
            found += 1
            continue
        packed = local - range_full[r]
        begin = piece_starts[first + packed]
        last_bin = bins[i] + 1 >= range_bins[r + 1]
        end = range_pieces[r] if last_bin else piece_starts[first + packed + 1]
        for p in range(begin, end):
            if rows.size:
                rows[found], documents[found], windows[found] = i, first + order[first + p], -1
            found += 1
    return found
