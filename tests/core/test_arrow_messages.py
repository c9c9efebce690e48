"""What the header of an Arrow message tells, without touching its body."""

from __future__ import annotations

import io
import struct
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from gristmill.core.arrow_messages import bodiless, count_rows, footer_blocks, prefix, unpacked_bytes


def messages(table: pa.Table, packed: str | None = None) -> list[Any]:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=packed)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=100)
    return list(pa.ipc.MessageReader.open_stream(sink.getvalue()))


def test_rows_are_counted_from_headers() -> None:
    found = messages(pa.table({"text": ["a"] * 250}))
    assert [count_rows(message) for message in found if message.type == "record batch"] == [100, 100, 50]


@pytest.mark.parametrize("packed", ["zstd", "lz4"])
def test_a_packed_batch_tells_how_large_it_becomes(packed: str) -> None:
    table = pa.table({"text": ["a" * 1000] * 100})
    (message,) = [message for message in messages(table, packed) if message.type == "record batch"]
    assert unpacked_bytes(message) >= 100_000 > len(message.body)


def test_what_is_not_packed_becomes_no_larger() -> None:
    assert [unpacked_bytes(message) for message in messages(pa.table({"n": [1, 2]}))] == [0, 0]


def test_a_dictionary_counts_too() -> None:
    table = pa.table({"text": pa.array(["a" * 5000, "b" * 5000]).dictionary_encode()})
    found = {message.type: unpacked_bytes(message) for message in messages(table, "zstd")}
    assert found["dictionary"] >= 10_000


def test_a_damaged_header_gives_an_answer_or_a_struct_error_and_nothing_else() -> None:
    (good,) = [message for message in messages(pa.table({"n": [1]})) if message.type == "record batch"]
    header = bytearray(good.metadata)
    refused = 0
    for at in range(0, len(header) - 4, 4):
        broken = bytes(header[:at]) + struct.pack("<i", -(1 << 30)) + bytes(header[at + 4 :])
        try:
            count_rows(SimpleNamespace(metadata=broken, type="record batch"))
        except struct.error:
            refused += 1
    assert refused


def test_a_message_is_read_without_its_body() -> None:
    for message in messages(pa.table({"text": ["a" * 100] * 250})):
        found, body = bodiless(memoryview(message.metadata))
        assert (found.type, body) == (message.type, message.body.size)
    with pytest.raises((struct.error, pa.ArrowException, OSError)):
        bodiless(memoryview(bytes(64)))


def test_a_prefix_has_a_mark_since_2019() -> None:
    data = messages(pa.table({"n": [1]}))[1].serialize().to_pybytes()
    assert prefix(memoryview(data)) == (8, prefix(memoryview(data[4:]))[1]) and prefix(memoryview(bytes(4))) == (4, 0)


@pytest.mark.parametrize("coded", [False, True])
def test_a_footer_names_all_record_batches_and_whether_there_are_dictionaries(coded: bool) -> None:
    column = pa.array(["a", "b"] * 50)
    table = pa.table({"text": column.dictionary_encode() if coded else column})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=25)
    data = sink.getvalue()
    footer = memoryview(data)[-10 - int.from_bytes(data[-10:-6], "little") : -10]
    blocks = footer_blocks(footer)
    if coded:
        assert blocks is None
    else:
        assert blocks and len(blocks) == 4
        assert [pa.ipc.read_message(data[at : at + head + body]).body.size for at, head, body in blocks] == [
            body for _, _, body in blocks
        ]
