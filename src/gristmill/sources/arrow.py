"""Arrow IPC, as files or as streams (which Hugging Face's `save_to_disk` and caches are): a document a row.

An IPC file is a stream between a magic number and an index, so both are read as a sequence of messages, memory-mapped:
passing over a record batch costs nothing, and a large file is cut at any of them. Elsewhere the parts of a file are
read by its outline; a file without one, or that is read whole, is copied.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping

import pyarrow as pa

from gristmill.core.arrow_messages import count_rows, unpacked_bytes
from gristmill.core.errors import SourceError
from gristmill.sources.arrow_outline import Outline, outline_of
from gristmill.sources.arrow_walk import FILE_MAGIC
from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.columns import Path, damage_named, run_edges, table_documents, wanted
from gristmill.sources.held_ranges import bytes_at
from gristmill.sources.streams import packing_of, seekable

# What a packed record batch may unpack to. (One that is not packed is read where it lies in the file.)
MAX_BATCH_BYTES = 2 << 30
# A smaller file elsewhere is held in memory, a larger one copied to a disk of this machine.
_HELD_BYTES = 4 << 20
# A record batch: its rows, and the columns that are asked for, or None if it lies before the part.
_Counted = tuple[int, "pa.RecordBatch | None"]


def cut_batches(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of record batches of about `unit_bytes`; a packed file, or one with dictionaries, stays whole."""
    if packing_of(file.path):
        return [Part(file, size=size)]
    with damage_named(file, "Arrow IPC"):
        bodies = _bodies(file)
    return [Part(file, size=size)] if bodies is None else parts_from(file, run_edges(bodies, unit_bytes), size)


def _bodies(file: InputFile) -> list[int] | None:
    """The bytes of each record batch; None where there are dictionaries."""
    if outline := outline_of(file):
        return None if outline.has_dictionaries else outline.bodies
    with _opened(file) as source:
        found = [(message.type, message.body.size) for message in pa.ipc.MessageReader.open_stream(source)]
    bound = any(kind == "dictionary" for kind, _ in found)
    return None if bound else [body for kind, body in found if kind == "record batch"]


def read_arrow(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The rows of a part's record batches."""
    whole = part.start == 0 and part.stop is None
    with damage_named(part.file, "Arrow IPC"):
        outline = None if whole else outline_of(part.file)
        if outline is None or outline.has_dictionaries or outline.largest > MAX_BATCH_BYTES:
            yield from _read_opened(part, format, mishaps, whole)
            return
        schema = outline.schema()
        found = _read_outlined(outline, schema, part)
        yield from _documents(found, part, format, wanted(schema, format, part), mishaps)


def _read_opened(part: Part, format: Format, mishaps: Mishaps, whole: bool) -> Iterator[pa.RecordBatch]:
    with _opened(part.file) as source:
        begin = source.tell()
        schema = _schema(iter(pa.ipc.MessageReader.open_stream(source)))
        source.seek(begin)
        columns = wanted(schema, format, part)
        fields = sorted({schema.get_field_index(path[0]) for path in columns.values()})
        found = _read_whole(source, part, fields) if whole else _read_stretch(source, part)
        yield from _documents(found, part, format, columns, mishaps)


def _documents(
    found: Iterator[_Counted], part: Part, format: Format, columns: Mapping[str, Path], mishaps: Mishaps
) -> Iterator[pa.RecordBatch]:
    row = 0
    for count, table in found:
        if table is not None:
            yield from table_documents(part, format, table, columns, row, mishaps)
        row += count


def _schema(messages: Iterator[pa.Message]) -> pa.Schema:
    """What the first message says of the columns. Arrow would take one of any kind for a schema, and die of it."""
    if (message := next(messages, None)) is None:
        raise pa.ArrowInvalid("it holds no message")
    if message.type != "schema":
        raise pa.ArrowInvalid(f"it begins with a message of the kind {message.type!r} and not with a schema")
    return pa.ipc.read_schema(message)


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


def _read_outlined(outline: Outline, schema: pa.Schema, part: Part) -> Iterator[_Counted]:
    yield outline.rows_before(part.start), None
    for message in outline.messages(part.start, part.stop):
        table = pa.ipc.read_record_batch(_checked(message, part), schema)
        yield len(table), table


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[pa.NativeFile]:
    """The file at its first message."""
    with _mapped(file) as source:
        source.seek(len(FILE_MAGIC) if source.read(len(FILE_MAGIC)) == FILE_MAGIC else 0)
        yield source


@contextlib.contextmanager
def _mapped(file: InputFile) -> Iterator[pa.NativeFile]:
    """All bytes of a file, so that who passes over some of them pays for none."""
    if file.place.maps or packing_of(file.path):
        with seekable(file) as source:
            yield source
        return
    place = file.place.pinned()
    size = place.size()
    file.check(size)
    held = bytes_at(place, 0, size) if size <= _HELD_BYTES else place.brought()
    with pa.BufferReader(pa.py_buffer(held)) as source:
        yield source
