"""Arrow IPC, as files or as streams (which Hugging Face's `save_to_disk` and caches are): a document a row.

An IPC file is a stream between a magic number and an index, so both are read as a sequence of messages, memory-mapped:
passing over a record batch costs nothing, and a large file is cut at any of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pyarrow as pa

from gristmill.core.arrow_messages import count_rows, unpacked_bytes
from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.columns import damage_named, run_edges, table_documents, wanted
from gristmill.sources.streams import packing_of, seekable

_FILE_MAGIC = b"ARROW1\0\0"
# What a packed record batch may unpack to. (One that is not packed is read where it lies in the file.)
MAX_BATCH_BYTES = 2 << 30


def cut_batches(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of record batches of about `unit_bytes`; a packed file, or one with dictionaries, stays whole."""
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
    with damage_named(part.file, "Arrow IPC"), _opened(part.file) as source:
        begin = source.tell()
        schema = _schema(iter(pa.ipc.MessageReader.open_stream(source)))
        source.seek(begin)
        columns = wanted(schema, format, part)
        fields = sorted({schema.get_field_index(path[0]) for path in columns.values()})
        for count, table in _read_whole(source, part, fields) if whole else _read_stretch(source, part):
            if table is not None:
                yield from table_documents(part, format, table, columns, row, mishaps)
            row += count


def _schema(messages: Iterator[pa.Message]) -> pa.Schema:
    """What the first message says of the columns. Arrow would take one of any kind for a schema, and die of it."""
    message = next(messages)
    if message.type != "schema":
        raise pa.ArrowInvalid(f"it begins with a message of the kind {message.type!r} and not with a schema")
    return pa.ipc.read_schema(message)


# A record batch: its rows, and the columns that are asked for, or None if it lies before the part.
_Counted = tuple[int, "pa.RecordBatch | None"]


def _checked(message: pa.Message, part: Part) -> pa.Message:
    """A message, if it does not unpack to more than may be held at once."""
    if (size := unpacked_bytes(message)) > MAX_BATCH_BYTES:
        raise SourceError(
            f"{part.file.path} has a record batch that unpacks to {size >> 20:,} MiB, and "
            f"{MAX_BATCH_BYTES >> 20:,} are the most that is read at once.",
            "Write it in smaller record batches.",
        )
    return message


def _read_whole(source: pa.NativeFile, part: Part, fields: list[int]) -> Iterator[_Counted]:
    begin = source.tell()
    for message in pa.ipc.MessageReader.open_stream(source):
        _checked(message, part)
    source.seek(begin)
    with pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(included_fields=fields)) as reader:
        for table in reader:
            yield len(table), table


def _read_stretch(source: pa.NativeFile, part: Part) -> Iterator[_Counted]:
    messages = iter(pa.ipc.MessageReader.open_stream(source))
    schema = _schema(messages)
    for message in itertools.islice(messages, part.start):
        yield count_rows(message), None
    stop = None if part.stop is None else part.stop - part.start
    for message in itertools.islice(messages, stop):
        table = pa.ipc.read_record_batch(_checked(message, part), schema)
        yield len(table), table


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[pa.NativeFile]:
    """The file at its first message."""
    with seekable(file) as source:
        source.seek(len(_FILE_MAGIC) if source.read(len(_FILE_MAGIC)) == _FILE_MAGIC else 0)
        yield source
