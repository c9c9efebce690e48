"""Writes a shard of whole documents, which appears when it is complete with its side files.

Memory: one shard's document rows (about 100 bytes a document) and one write buffer; tokens go straight to disk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.hashing import hash_ids
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.local import disk_errors
from gristmill.store.blocks import BLOCK, BLOCKS_SUFFIX, Sums, write_blocks
from gristmill.store.format import (
    COMPRESSED_SUFFIX,
    DOCS_SUFFIX,
    IDS_SUFFIX,
    SUM_BLOCK,
    beside,
    block_sums,
    check_dtype,
    write_ids,
    write_idx,
)
from gristmill.store.manifest import ShardEntry
from gristmill.store.sums import Listing, sums_of

if TYPE_CHECKING:
    import pyarrow as pa

    from gristmill.store.seekable import SeekableWriter

ROW_GROUP = 16_384


def shard_cuts(lengths: Ints, tokens_per_shard: int, filled: int) -> Iterator[tuple[int, int]]:
    """Which documents, as [first, stop), go to the open shard, which has `filled` tokens, and to each one after it.

    A shard is closed by the first document that does not fit. A document longer than a shard gets one of its own.
    """
    ends, first = np.cumsum(lengths), 0
    while first < len(ends):
        room = (int(ends[first - 1]) if first else 0) + tokens_per_shard - filled
        stop = max(int(np.searchsorted(ends, room, side="right")), first if filled else first + 1)
        yield first, stop
        first, filled = stop, 0


def shard_name(split: str, number: int, compression: str) -> str:
    """A shard's tokens, relative to the manifest."""
    return f"{split}/shard-{number:05d}.bin{COMPRESSED_SUFFIX if compression == 'zstd' else ''}"


def write_shard(
    root: Address, name: str, dtype: str, parts: Iterable[tuple[npt.NDArray[Any], Ints, pa.Table]]
) -> tuple[ShardEntry, Listing]:
    """A shard of all `parts`: tokens end to end, lengths and rows of documents each; and its part of `sums.json`."""
    writer = _Shard(root, name, check_dtype(dtype))
    try:
        for part in parts:
            writer.add(*part)
        return writer.finish(), sums_of(root, [beside(name, DOCS_SUFFIX)])
    finally:
        writer.abandon()


class _Shard:
    """One shard being written under a temporary name; `finish` returns what the manifest must say of it."""

    def __init__(self, root: Address, name: str, dtype: np.dtype[Any]) -> None:
        self._root, self._name, self._dtype = root, name, dtype
        self._path = root / name
        self._attempt = place_at(self._path).attempt(buffering=4 << 20)
        self._packed = _packed(self._attempt.file, dtype.itemsize) if name.endswith(COMPRESSED_SUFFIX) else None
        self._sums, self._blocks = _BlockSums(SUM_BLOCK), _BlockSums(BLOCK)
        self._lengths: list[Ints] = []
        self._tables: list[pa.Table] = []
        self.tokens = 0

    def add(self, tokens: npt.NDArray[Any], lengths: Ints, documents: pa.Table) -> None:
        data = np.ascontiguousarray(tokens, dtype=self._dtype)
        with disk_errors(self._path):
            (self._packed or self._attempt.file).write(data.data)
        self._sums.update(data.data)
        self._blocks.update(data.data)
        self._lengths.append(lengths)
        self._tables.append(documents)
        self.tokens += len(data)

    def finish(self) -> ShardEntry:
        """Write the side files, then let the tokens appear."""
        lengths = np.concatenate(self._lengths)
        table = document_table(self._tables, lengths)
        sums = TokenSums(self.tokens * self._dtype.itemsize, self._sums.finish(), self._blocks.finish())
        entry = write_side_files(self._root, self._name, lengths, table, sums, self._dtype.name)
        if self._packed:
            with disk_errors(self._path):
                size, checksum = self._packed.finish()
            entry = replace(entry, compressed_bytes=size, compressed_checksum=checksum)
        self._attempt.keep()
        return entry

    def abandon(self) -> None:
        self._attempt.abandon()


def _packed(file: IO[bytes], itemsize: int) -> SeekableWriter:
    from gristmill.store.seekable import SeekableWriter

    return SeekableWriter(file, itemsize)


class _BlockSums:
    """xxh3-64 of each block of a stream of bytes; what does not fill one waits for the next bytes."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._done: list[Sums] = []
        self._open = bytearray()

    def update(self, data: memoryview) -> None:
        view = data.cast("B")
        head = (self._block - len(self._open)) % self._block if self._open else 0
        self._open += view[:head]
        if len(self._open) == self._block:
            self._close()
        rest = view[head:]
        whole = len(rest) - len(rest) % self._block
        self._done.append(block_sums(rest[:whole], self._block))
        self._open += rest[whole:]

    def _close(self) -> None:
        self._done.append(block_sums(self._open, self._block))
        self._open = bytearray()

    def finish(self) -> Sums:
        self._close()
        return np.concatenate(self._done)


class TokenSums(NamedTuple):
    """How many bytes a shard's tokens have, and xxh3-64 of each of their 1 MiB blocks and of each 4 KiB."""

    size: int
    sums: Sums
    blocks: Sums


def token_sums(tokens: npt.NDArray[Any]) -> TokenSums:
    """The sums of tokens that are all there."""
    return TokenSums(tokens.nbytes, block_sums(tokens), block_sums(tokens, BLOCK))


def write_side_files(
    root: Address, name: str, lengths: Ints, table: pa.Table, sums: TokenSums, dtype: str
) -> ShardEntry:
    """`.idx`, `.sum`, `.docs.parquet`, `.ids` and `.blocks` of a shard; returns what the manifest says of it."""
    import pyarrow.parquet as pq

    idx, ids = io.BytesIO(), io.BytesIO()
    write_idx(idx, lengths, dtype)
    write_ids(ids, hash_ids(table.column("id").to_pylist()))
    base = os.fspath(root / name)
    for suffix, data in ((".idx", idx.getvalue()), (".sum", sums.sums.tobytes()), (IDS_SUFFIX, ids.getvalue())):
        place_at(beside(base, suffix)).write(data)
    with place_at(beside(base, DOCS_SUFFIX)).writing() as file:
        pq.write_table(table, file, row_group_size=ROW_GROUP, compression="zstd")
    with place_at(beside(base, BLOCKS_SUFFIX)).writing() as file:
        blocks = write_blocks(file, idx.getvalue(), ids.getvalue(), sums.size, sums.blocks)
    return ShardEntry(
        path=name,
        tokens=int(lengths.sum()),
        documents=len(lengths),
        checksum=checksum(sums.sums.tobytes()),
        idx_checksum=checksum(idx.getvalue()),
        rows_checksum=rows_checksum(table),
        ids_checksum=checksum(ids.getvalue()),
        blocks_checksum=blocks,
    )


def document_table(parts: list[pa.Table], lengths: Ints) -> pa.Table:
    """The rows of `.docs.parquet`: id, source, offset, length, path, content hash, and what the source carries."""
    import pyarrow as pa

    rows = pa.concat_tables(parts).combine_chunks()
    columns = {
        "id": rows.column("id"),
        "source": rows.column("source"),
        "offset": pa.array(np.cumsum(lengths) - lengths),
        "length": pa.array(lengths),
        **{name: rows.column(name) for name in rows.column_names if name not in ("id", "source")},
    }
    return pa.table(columns)


def checksum(data: bytes) -> str:
    """xxh3-128 in hex. For tokens it is taken over the sums of their 1 MiB blocks, so that it can be had in parts."""
    return str(xxhash.xxh3_128_hexdigest(data))


def rows_checksum(table: pa.Table) -> str:
    """xxh3-128 of the rows' values: Parquet's own bytes may differ between versions of its writer, these may not."""
    import pyarrow as pa

    state = xxhash.xxh3_128()
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        state.update(name.encode())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            import pyarrow.compute as pc

            state.update(np.asarray(pc.fill_null(pc.binary_length(column), -1)).astype("<i8").tobytes())
            state.update("".join(value or "" for value in column.to_pylist()).encode())
        else:
            state.update(column.to_numpy(zero_copy_only=False).tobytes())
    return str(state.hexdigest())
