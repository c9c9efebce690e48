"""A small table with columns of all kinds, and Arrow files of it."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

FIELDS = ("n", "f", "s", "o", "data.inner")


def table() -> pa.Table:
    texts = [f"text {i} " * (i % 7) for i in range(40)]
    return pa.table({
        "text": texts,
        "id": pa.array([bytes([i] * 16) for i in range(40)], pa.binary(16)),
        "n": pa.array(range(40), pa.uint64()),
        "f": pa.array([i / 7 for i in range(40)], pa.float32()),
        "s": pa.array(["ab", None, "é", "d"] * 10),
        "o": [{"k": [i, None], "b": b"\xff"} for i in range(40)],
        "data": [{"inner": f"i{i}"} for i in range(40)],
    })  # fmt: skip


def _written(make: Any, rows: pa.Table, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    with make(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows, max_chunksize=15)
    return out.getvalue()


def arrow_files() -> list[bytes]:
    rows = table()
    small = rows.select(["text", "id", "s"])
    coded = small.set_column(0, "text", rows["text"].combine_chunks().dictionary_encode())
    views = small.set_column(0, "text", rows["text"].cast(pa.string_view()))
    large = small.set_column(0, "text", rows["text"].cast(pa.large_string())).set_column(1, "id", rows["s"])
    return [_written(pa.ipc.new_stream, rows), _written(pa.ipc.new_file, rows), _written(pa.ipc.new_stream, small),
            _written(pa.ipc.new_stream, coded), _written(pa.ipc.new_stream, views), _written(pa.ipc.new_file, large),
            _written(pa.ipc.new_stream, small, "zstd"), _written(pa.ipc.new_file, rows, "lz4")]  # fmt: skip
