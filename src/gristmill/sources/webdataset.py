"""WebDataset tar: neighbouring members whose names are equal up to the first dot are one document.

Its text is the member `.txt` or `.text`, or stands in the member `.json` under the text field; id and carried fields
come from that JSON. Other members are passed over and counted. Nothing is unpacked to disk, whatever the names say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa

from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Mishaps, Part, portable, skippable
from gristmill.sources.batches import BATCH_BYTES, BATCH_DOCUMENTS, ROW, document_batch
from gristmill.sources.json_rows import parse_json
from gristmill.sources.jsonl import Values, parse_object
from gristmill.sources.streams import Stream
from gristmill.sources.tar import Member, TarError, TarReader

_TEXTS, _JSON = ("txt", "text"), "json"
_WANTED = (*_TEXTS, _JSON)


def cut_nothing(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """A tar is read from its start: only reading tells where members begin."""
    return [Part(file, size=size)]


def read_webdataset(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a tar: the row is the sample's number, the id that of the JSON or the sample's key."""
    for held in _gathered(_documents(part, format, mishaps)):
        yield _batch(part, format, held)


def _documents(part: Part, format: Format, mishaps: Mishaps) -> Iterator[tuple[int, Values]]:
    for row, key, members in _samples(part, mishaps):
        try:
            id, *values = _values(members, format, f"{part.file.path}, sample {key!r}")
        except SourceError as error:
            mishaps.report(error, part.file, part.file.at(ROW, key), row)
            continue
        yield row, [part.file.at(ROW, key) if id is None else id, *values]


def _gathered(documents: Iterator[tuple[int, Values]]) -> Iterator[list[tuple[int, Values]]]:
    """Documents for one batch each; where the tar breaks off, those before come first."""
    held: list[tuple[int, Values]] = []
    size = 0
    try:
        for row, values in documents:
            held.append((row, values))
            size += len(values[1] or "")
            if size >= BATCH_BYTES or len(held) >= BATCH_DOCUMENTS:
                yield held
                held, size = [], 0
    except SourceError:
        yield held
        raise
    yield held


# The members of a sample that may hold text, by the name after the first dot; None is one that is sparse or too long.
_Members = dict[str, bytes | None]


def _samples(part: Part, mishaps: Mishaps) -> Iterator[tuple[int, str, _Members]]:
    """Number, key and members of each sample."""
    with Stream(part.file) as stream:
        tar = TarReader(stream)
        try:
            files = ((*_key(member.name), member) for member in tar)
            for row, (key, group) in enumerate(itertools.groupby(files, key=lambda named: named[0])):
                members = {suffix: _data(tar, member, suffix) for _, suffix, member in group}
                mishaps.ignored[part.file.source] += sum(suffix not in _WANTED for suffix in members)
                yield row, key, {suffix: data for suffix, data in members.items() if suffix in _WANTED}
        except TarError as error:
            raise skippable(
                f"{part.file.path} is damaged, cut off or no tar after {stream.position:,} bytes ({error}).",
                "Fetch it again",
                " to keep what comes before",
            ) from error


def _key(name: str) -> tuple[str, str]:
    """A member's key and suffix; the key is text that any system can hold, without `..`, `.` or a leading slash."""
    folder, _, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    steps = [step for step in folder.split("/") if step not in ("", ".", "..")]
    return portable("/".join([*steps, stem])), suffix.lower()


def _data(tar: TarReader, member: Member, suffix: str) -> bytes | None:
    wanted = suffix in _WANTED and not member.sparse and member.size <= base.MAX_DOCUMENT_BYTES
    return tar.data() if wanted else None


def _values(members: _Members, format: Format, where: str) -> Values:
    """Id, text and fields of a sample."""
    if None in members.values():
        limit = base.MAX_DOCUMENT_BYTES >> 20
        raise SourceError(
            f"{where} is longer than {limit:,} MiB, or stored with holes.", "Split it, or pack it without --sparse."
        )
    beside = _object(members.get(_JSON), where)
    for suffix in _TEXTS:
        if (data := members.get(suffix)) is not None:
            return parse_object({**beside, format.text: _decoded(data, format, where)}, format, where)
    if _JSON not in members:
        raise SourceError(f"{where} has no member .txt, .text or .json.")
    return parse_object(beside, format, where)


def _object(data: bytes | None, where: str) -> dict[str, object]:
    if data is None:
        return {}
    try:
        value = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where} has a member .json that is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise SourceError(f"{where} has a member .json that is no object but {type(value).__name__}.")
    return value


def _decoded(data: bytes, format: Format, where: str) -> str:
    try:
        return data.decode("utf-8-sig" if format.is_utf8 else format.encoding)
    except UnicodeError as error:  # some of Python's codecs do not say where
        at = getattr(error, "start", 0)
        raise SourceError(f"{where} is not {format.encoding}: byte {at:,} of its text is invalid.") from error


def _batch(part: Part, format: Format, held: list[tuple[int, Values]]) -> pa.RecordBatch:
    rows = [row for row, _ in held]
    columns = [[values[i] for _, values in held] for i in range(2 + len(format.fields))]
    ids, texts, *fields = columns
    carried = {name: pa.array(field, pa.string()) for name, field in zip(format.fields, fields, strict=True)}
    return document_batch(part.file, rows, pa.array(texts, pa.large_string()), pa.array(ids, pa.string()), carried)
