"""What the header of an Arrow message tells, without touching its body: rows, and how large packed buffers become.

A header is a flatbuffer: tables whose fields are found by a list of offsets that lies a signed distance before them.
A field's number is its place in Arrow's `Message.fbs`; one that is not there has the offset 0.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

_KIND, _HEADER, _BODY_BYTES = 1, 2, 3
_RECORD_BATCH = 3
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_DICTIONARY_BATCH = 1
# Of the index at the end of an IPC file; a block of it is a message: its byte (8), the bytes up to its body (4, and 4
# that are empty), and those of the body (8).
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_BLOCK = np.dtype([("at", "<i8"), ("head", "<i4"), ("", "<i4"), ("body", "<i8")])
# A packed buffer begins with its unpacked size; -1 is one that is not packed after all.
_SIZE_BYTES = 8


def prefix(data: memoryview) -> tuple[int, int]:
    """Of the first 8 bytes of a message: how many come before its metadata, and how long that is; 0 ends a stream.

    Streams from before 2019 have no mark in front of the length.
    """
    first = _number(data, 0, "<i")
    return (8, _number(data, 4, "<i")) if first == -1 else (4, first)


def bodiless(metadata: memoryview) -> tuple[pa.Message, int]:
    """A message by its metadata alone, which Arrow checks as it does all, and the bytes that its body should have."""
    data = bytearray(metadata)
    at = _field(memoryview(data), _number(memoryview(data), 0, "<I"), _BODY_BYTES)
    size = _number(memoryview(data), at, "<q") if at else 0
    if at:
        struct.pack_into("<q", data, at, 0)
    return pa.ipc.read_message(pa.py_buffer(struct.pack("<ii", -1, len(data)) + data)), size


def footer_blocks(data: memoryview) -> list[tuple[int, int, int]] | None:
    """Of the footer of an IPC file: byte, bytes up to the body and those of the body of each record batch.

    None if there are dictionaries.
    """
    table = _number(data, 0, "<I")
    if (at := _field(data, table, _FOOTER_DICTIONARIES)) and _number(data, at + _number(data, at, "<I"), "<I"):
        return None
    if not (at := _field(data, table, _FOOTER_BATCHES)):
        return []
    vector = at + _number(data, at, "<I")
    blocks = np.frombuffer(data, _BLOCK, _number(data, vector, "<I"), vector + 4)
    return list(zip(*(blocks[name].tolist() for name in ("at", "head", "body")), strict=True))


def count_rows(message: pa.Message) -> int:
    """The rows of a record batch."""
    data = memoryview(message.metadata)
    at = _field(data, _batch(data, message.type), _BATCH_LENGTH)
    return _number(data, at, "<q") if at else 0


def batch_extent(data: memoryview) -> tuple[int | None, int]:
    """Of a message's header: the rows, if it is a record batch, and the bytes of the body that follows."""
    table = _number(data, 0, "<I")
    kind, body = _field(data, table, _KIND), _field(data, table, _BODY_BYTES)
    size = _number(data, body, "<q") if body else 0
    if not kind or data[kind] != _RECORD_BATCH:
        return None, size
    at = _field(data, _table(data, table, _HEADER), _BATCH_LENGTH)
    return _number(data, at, "<q") if at else 0, size


def batch_buffers(data: memoryview) -> list[tuple[int, int]]:
    """Of the header of a record batch: where in the body each of its buffers begins, and how long it is."""
    at = _field(data, _table(data, _number(data, 0, "<I"), _HEADER), _BATCH_BUFFERS)
    return _pairs(data, at) if at else []


def unpacked_bytes(message: pa.Message) -> int:
    """The bytes that the packed buffers of a batch become, as they claim; 0 where nothing is packed."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    data = memoryview(message.metadata)
    batch = _batch(data, message.type)
    if not _field(data, batch, _BATCH_COMPRESSION) or not (at := _field(data, batch, _BATCH_BUFFERS)):
        return 0
    body = memoryview(message.body)
    return sum(max(_number(body, begin, "<q"), 0) for begin, size in _pairs(data, at) if size >= _SIZE_BYTES)


def _pairs(data: memoryview, at: int) -> list[tuple[int, int]]:
    """The vector of pairs of numbers that a field leads to."""
    vector = at + _number(data, at, "<I")
    count = _number(data, vector, "<I")
    return [(begin, size) for begin, size in np.frombuffer(data, "<i8", 2 * count, vector + 4).reshape(-1, 2).tolist()]


def _batch(data: memoryview, kind: str) -> int:
    """Where the table of the record batch lies: it is the message's header, or inside that of a dictionary."""
    batch = _table(data, _number(data, 0, "<I"), _HEADER)
    return _table(data, batch, _DICTIONARY_BATCH) if kind == "dictionary" else batch


def _table(data: memoryview, table: int, field: int) -> int:
    """Where a field's own table lies."""
    at = _field(data, table, field)
    return at + _number(data, at, "<I")


def _field(data: memoryview, table: int, field: int) -> int:
    """Where a table holds a field; 0 if it has none."""
    offsets = table - _number(data, table, "<i")
    if 4 + 2 * field >= _number(data, offsets, "<H"):
        return 0
    offset = _number(data, offsets + 4 + 2 * field, "<H")
    return table + offset if offset else 0


def _number(data: memoryview, at: int, kind: str) -> int:
    """A number in the data; outside of it is a struct.error."""
    if at < 0:  # struct would count from the end
        raise struct.error("an offset lies before its data")
    return int(struct.unpack_from(kind, data, at)[0])
