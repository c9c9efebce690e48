"""Arrow IPC, as files or as streams (which Hugging Face's `save_to_disk` and caches are): a document a row.

An IPC file is a stream between a magic number and an index, so both are read as a sequence of messages, memory-mapped:
passing over a record batch costs nothing, and a large file is cut at any of them.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.columns import damage_named, run_edges, table_documents, wanted
from gristmill.sources.streams import packing_of, seekable

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_MAGIC = b"ARROW1\0\0"


def cut_batches(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of record batches of about `unit_bytes`; a packed file, or one with dictionaries, stays whole."""
    import pyarrow as pa

    if packing_of(file.path):
        return [Part(file, size=size)]
    with damage_named(file, "Arrow IPC"), _opened(file) as source:
        bodies = [(message.type, message.body.size) for message in pa.ipc.MessageReader.open_stream(source)]
    if any(kind == "dictionary" for kind, _ in bodies):
        return [Part(file, size=size)]
    return parts_from(file, run_edges([body for kind, body in bodies if kind == "record batch"], unit_bytes), size)


def read_arrow(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The rows of a part's record batches."""
    whole = part.start == 0 and part.stop is None
    row = 0
    with damage_named(part.file, "Arrow IPC"):
        for count, table in _read_whole(part, format) if whole else _read_stretch(part, format):
            if table is not None:
                yield table_documents(part, format, table, row, mishaps)
            row += count


# A record batch: its rows, and the columns that are asked for, or None if it lies before the part.
_Counted = tuple[int, "pa.RecordBatch | None"]


def _read_whole(part: Part, format: Format) -> Iterator[_Counted]:
    import pyarrow as pa

    with _opened(part.file) as source, pa.ipc.open_stream(source) as reader:
        columns = wanted(reader.schema, format, part)
        for table in reader:
            yield len(table), table.select(columns)


def _read_stretch(part: Part, format: Format) -> Iterator[_Counted]:
    import pyarrow as pa

    with _opened(part.file) as source:
        messages = iter(pa.ipc.MessageReader.open_stream(source))
        schema = pa.ipc.read_schema(next(messages))
        columns = wanted(schema, format, part)
        for message in itertools.islice(messages, part.start):
            yield _rows(message), None
        stop = None if part.stop is None else part.stop - part.start
        for message in itertools.islice(messages, stop):
            yield _rows(message), pa.ipc.read_record_batch(message, schema).select(columns)


def _rows(message: Any) -> int:
    """The rows of a record batch by its header, a flatbuffer: Message.header.length, without touching the body."""
    data = memoryview(message.metadata)
    header = _field_at(data, _number(data, 0, "<I"), 2)
    length = _field_at(data, header + _number(data, header, "<I"), 0)
    return _number(data, length, "<q")


def _field_at(data: memoryview, table: int, field: int) -> int:
    """Where a flatbuffer's table holds a field: its list of offsets lies a signed distance before it."""
    offsets = table - _number(data, table, "<i")
    return table + _number(data, offsets + 4 + 2 * field, "<H")


def _number(data: memoryview, at: int, kind: str) -> int:
    return int(struct.unpack_from(kind, data, at)[0])


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[Any]:
    """The file at its first message."""
    with seekable(file) as source:
        source.seek(len(_FILE_MAGIC) if source.read(len(_FILE_MAGIC)) == _FILE_MAGIC else 0)
        yield source
