"""Compiled loops over mapped bytes. Importing this module imports Numba (0.2 s), so import it where it is used.

Tokens and document indices are read from raw addresses: a table of 10,000 shards is three integer columns, and one
call without the GIL serves a whole batch. The first call on a machine compiles (about 5 s for all, kept on disk).

A *shard table* is (starts, addresses, headers, itemsizes): shard i holds positions [starts[i], starts[i + 1]).
In place of a shard may stand a part of one, such as a decompressed frame, and gaps that nothing reads.
A *document table* is (starts, itemsizes, doc_starts, addresses, pointers_at, marks_at) of whole shards: shard i holds
documents [doc_starts[i], doc_starts[i + 1]); marks_at[i] is 0 where each document is one sequence of its `.idx`.
Indices are checked when they are mapped (`idx.check_idx`, `index.PackIndex`): no loop here meets a pointer that falls
or leaves its shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import empty, int64_at, pointer, prefetch, widen_past_caches, written


@compiled
def _last_at_most(values: Any, wanted: int) -> Any:
    """The last i with values[i] <= wanted, by bisection; of equal values (empty shards) the last one's."""
    low, high = 0, values.size
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] <= wanted:
            low = middle
        else:
            high = middle
    return low


@compiled
def _copy(source: Any, out: Any) -> None:
    for j in range(out.size):
        out[j] = source[j]


@compiled
def _pass_on(address: int, itemsize: int, dtype: Any, out: Any, past: bool) -> None:
    """Fill `out` with ids of a type; `past` the caches but for words before its first whole line and after its last.

    Half of what it takes to write a line is to read it first, which the caches do for one that they do not hold.
    """
    to = out.ctypes.data
    first = min(-(to // 8) % 8, out.size) if past else out.size
    last = first + (out.size - first) // 8 * 8
    _copy(pointer(address, dtype), out[:first])
    for j in range(first, last, 8):
        widen_past_caches(address + itemsize * j, to + 8 * j, dtype)
    _copy(pointer(address + itemsize * last, dtype), out[last:])


@compiled
def _widen(address: int, itemsize: int, out: Any, past: bool) -> None:
    """Fill `out`, which is int64, with ids of 1, 2, 4 or 8 bytes."""
    if itemsize == 2:
        _pass_on(address, 2, np.uint16, out, past)
    elif itemsize == 4:
        _pass_on(address, 4, np.uint32, out, past)
    elif itemsize == 1:
        _pass_on(address, 1, np.uint8, out, past)
    else:
        _pass_on(address, 8, np.int64, out, past)


@compiled
def copy_tokens(shards: Any, position: int, out: Any, past: bool) -> None:
    """Fill `out` with the tokens from `position` on, across shards where it must; `past` the caches, if asked."""
    starts, addresses, headers, itemsizes = shards
    shard = _last_at_most(starts, position)
    done = 0
    while done < out.size:
        inside = position + done - starts[shard]
        count = min(out.size - done, starts[shard + 1] - position - done)
        if count > 0:
            address = addresses[shard] + headers[shard] + inside * itemsizes[shard]
            _widen(address, itemsizes[shard], out[done : done + count], past)
        done += count
        shard += 1


@compiled
def _prefetch_tokens(shards: Any, position: int) -> None:
    """Ask for the first KiB of the next piece, which may lie anywhere: a fifth of the time of packed batches."""
    starts, addresses, headers, itemsizes = shards
    shard = _last_at_most(starts, position)
    address = addresses[shard] + headers[shard] + (position - starts[shard]) * itemsizes[shard]
    for line in range(16):
        prefetch(address + 64 * line)


@compiled
def _document_start(table: Any, shard: int, document: int) -> Any:
    """Where document `document` of a shard begins, in tokens of the shard; the one after the last begins at its end."""
    starts, itemsizes, doc_starts, addresses, pointers_at, marks_at = table
    if document >= doc_starts[shard + 1] - doc_starts[shard]:
        return starts[shard + 1] - starts[shard]
    address, pointers, marks, sequence = addresses[shard], pointers_at[shard], marks_at[shard], document
    if marks:
        sequence = int64_at(address + marks + 8 * document)
        if sequence >= (marks - pointers) // 8:  # an empty document after the last sequence
            return starts[shard + 1] - starts[shard]
    return int64_at(address + pointers + 8 * sequence) // itemsizes[shard]


_INTS, _TABLE = types.int64[::1], types.int64[:, ::1]
_SHARDS, _DOCUMENTS = types.UniTuple(_INTS, 4), types.UniTuple(_INTS, 6)
_MAPPED, _MAPPED_SHORT = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int64, types.uint32))


@entry(types.void(_DOCUMENTS, _INTS, _TABLE))
def document_spans(table: Any, documents: Any, spans: Any) -> None:
    """spans[i] = the positions [first, end) of document documents[i]."""
    starts, doc_starts = table[0], table[2]
    for i in range(documents.size):
        shard = _last_at_most(doc_starts, documents[i])
        local = documents[i] - doc_starts[shard]
        spans[i, 0] = starts[shard] + _document_start(table, shard, local)
        spans[i, 1] = starts[shard] + _document_start(table, shard, local + 1)


@compiled
def document_at(table: Any, shard: int, inside: int) -> Any:
    """The document of a shard (counted there) that holds its token `inside`, by bisection of the index."""
    low, high = 0, table[2][shard + 1] - table[2][shard]
    while high - low > 1:
        middle = (low + high) // 2
        if _document_start(table, shard, middle) <= inside:
            low = middle
        else:
            high = middle
    return low


@compiled
def _piece_bounds(edges: Any, columns: Any, lengths: Any, row: int, bounds: Any) -> Any:
    """Where each piece of a row ends: in pack and pad every piece is a document. Returns how many there are."""
    count = 0
    for i in range(edges[row], edges[row + 1]):
        bounds[count] = columns[i] + lengths[i]
        count += 1
    return count


@compiled
def _stream_bounds(table: Any, position: int, length: int, bounds: Any) -> Any:
    """Where documents end inside a stretch of the stream, its own end included. Returns how many bounds there are."""
    starts, doc_starts = table[0], table[2]
    shard = _last_at_most(starts, position)
    document = document_at(table, shard, position - starts[shard])
    at, end, count = position, position + length, 0
    while at < end:
        after = starts[shard] + _document_start(table, shard, document + 1)
        if after > at:
            at = min(after, end)
            bounds[count] = at - position
            count += 1
        document += 1
        if document >= doc_starts[shard + 1] - doc_starts[shard]:
            shard, document = shard + 1, 0
    return count


# Loops over one-dimensional slices: LLVM turns these into vector instructions, those over [row, column] it does not.


@compiled
def _set(out: Any, value: Any) -> None:
    for j in range(out.size):
        out[j] = value


@compiled
def _count_up(out: Any) -> None:
    for j in range(out.size):
        out[j] = j


@compiled
def _fill_documents(bounds: Any, count: int, doc_ids: Any, position_ids: Any) -> None:
    """Ordinals of documents (-1 in padding), and positions that begin anew at each bound, padding's too."""
    column = 0
    for k in range(count + 1):
        end = bounds[k] if k < count else max(doc_ids.size, position_ids.size)
        if doc_ids.size:
            _set(doc_ids[column:end], k if k < count else -1)
        if position_ids.size:
            _count_up(position_ids[column:end])
        column = end


@compiled
def _fill_cu_seqlens(bounds: Any, count: int, seq_len: int, cu_seqlens: Any) -> Any:
    """0, each bound, then seq_len to the end; returns how many stretches found no room and were merged."""
    room, at, merged = cu_seqlens.size, 1, 0
    cu_seqlens[0] = 0
    for k in range(count):
        if bounds[k] == seq_len:
            break
        if at < room - 1:
            cu_seqlens[at] = bounds[k]
            at += 1
        else:
            merged += 1
    _set(cu_seqlens[at:room], seq_len)
    return merged


@compiled
def _fill_labels(shards: Any, position: int, follows: bool, labels: Any, past: bool) -> None:
    """The next token inside a piece; at its end the token that follows in the store, or -100 if none does."""
    last = labels.size - 1
    copy_tokens(shards, position + 1, labels[: labels.size - (not follows)], past)
    if not follows:
        labels[last] = -100


_SHORT_TABLE, _MASK_TABLE = types.int32[:, ::1], types.boolean[:, ::1]


@entry(
    types.void(
        _SHARDS, _DOCUMENTS, *[_INTS] * 4, types.boolean[::1], types.boolean, types.int64, types.boolean,
        _TABLE, _TABLE, _MASK_TABLE, *[_SHORT_TABLE] * 3, _INTS,
    )
)  # fmt: skip
def assemble(
    shards: Any, documents: Any, edges: Any, columns: Any, positions: Any, lengths: Any, follows: Any,
    by_piece: bool, eos: int, past: bool,
    input_ids: Any, labels: Any, loss_mask: Any, doc_ids: Any, position_ids: Any, cu_seqlens: Any,
    merged: Any,
) -> None:  # fmt: skip
    """Fill one batch row by row, while the row is in the nearest cache. Arrays of size 0 were not asked for.

    Row r holds pieces [edges[r], edges[r + 1]): tokens [positions[i], + lengths[i]) from column columns[i] on.
    by_piece: each piece is a document, whose first token is no target; else documents are looked up in the index.
    merged[r]: how many documents cu_seqlens had no room for. past: ids and labels are written past the caches.
    """
    seq_len = input_ids.shape[1]
    with_labels, with_mask, with_bounds = labels.size > 0, loss_mask.size > 0, cu_seqlens.size > 0
    with_documents, with_positions = doc_ids.size > 0, position_ids.size > 0
    bounds, nothing = empty(seq_len + 1, np.int64), empty(0, np.int32)
    for row in range(edges.size - 1):
        filled = 0
        inputs = input_ids[row]
        for i in range(edges[row], edges[row + 1]):
            first, filled = columns[i], columns[i] + lengths[i]
            if i + 1 < edges[edges.size - 1]:
                _prefetch_tokens(shards, positions[i + 1])
            copy_tokens(shards, positions[i], inputs[first:filled], past)
            if with_labels:
                _fill_labels(shards, positions[i], follows[i], labels[row, first:filled], past)
            if with_mask:
                _set(loss_mask[row, first:filled], True)
                if by_piece:
                    loss_mask[row, first] = False
        if filled < seq_len:
            _set(inputs[filled:], eos)
            if with_mask:
                _set(loss_mask[row, filled:], False)
            if with_labels:
                _set(labels[row, filled:], -100)
        if with_documents or with_positions or with_bounds:
            count = 0
            if by_piece:
                count = _piece_bounds(edges, columns, lengths, row, bounds)
            elif filled:
                count = _stream_bounds(documents, positions[edges[row]], lengths[edges[row]], bounds)
            ordinals = doc_ids[row] if with_documents else nothing
            _fill_documents(bounds, count, ordinals, position_ids[row] if with_positions else nothing)
            if with_bounds:
                merged[row] = _fill_cu_seqlens(bounds, count, seq_len, cu_seqlens[row])
    if past:
        written()


@entry(types.int64(*[_INTS] * 3, types.uint8[::1], *[_INTS] * 3))
def untrusted_blocks(starts: Any, firsts: Any, shifts: Any, bits: Any, positions: Any, lengths: Any, out: Any) -> Any:
    """The blocks that pieces touch and whose bit is 0. Returns how many there are; with an empty `out` it only counts.

    Shard i is cut into blocks of 2**shifts[i] tokens, of which the first has the number firsts[i].
    """
    found = 0
    for i in range(positions.size):
        shard = _last_at_most(starts, positions[i])
        last = positions[i] + max(lengths[i], 1) - 1
        while shard + 1 < starts.size and starts[shard] <= last:
            begin = max(positions[i], starts[shard]) - starts[shard]
            end = min(last, starts[shard + 1] - 1) - starts[shard]
            base, shift = firsts[shard], shifts[shard]
            for block in range(base + (begin >> shift), base + (end >> shift) + 1):
                if not (bits[block >> 3] >> (block & 7)) & 1:
                    if found < out.size:
                        out[found] = block
                    found += 1
            shard += 1
    return found


@entry(types.int64(types.boolean[::1], *[_MAPPED] * 4, *[_MAPPED_SHORT] * 3, *[_INTS] * 4))
def bin_pieces(
    checked: Any, range_bins: Any, range_docs: Any, range_full: Any, range_pieces: Any,
    full_before: Any, order: Any, piece_starts: Any, bins: Any, rows: Any, documents: Any, windows: Any,
) -> Any:  # fmt: skip
    """The pieces of each bin: row, document and which window of it (-1: the remainder). Returns how many there are.

    With empty `rows` it only counts: call twice. A range r that is not `checked` is not looked into: -1 - r.
    """
    found = 0
    for i in range(bins.size):
        r = _last_at_most(range_bins, bins[i])
        if not checked[r]:
            return -1 - r
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
