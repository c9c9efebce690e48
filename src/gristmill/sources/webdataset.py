"""WebDataset tar: neighbouring members whose names are equal up to the first dot are one document.

Its text is the member that is called as the text field is (`.text`, for which `.txt` will do), or stands in the member
`.json` under the text field; id and carried fields come from that JSON. Other members are passed over and counted.
Nothing is unpacked to disk, whatever the names say, and nothing is ever unpickled.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Mishaps, Part, portable, skippable
from gristmill.sources.batches import BATCH_BYTES, BATCH_DOCUMENTS, ROW, document_batch
from gristmill.sources.json_rows import parse_json
from gristmill.sources.jsonl import Values, parse_object
from gristmill.sources.streams import Stream
from gristmill.sources.tar import Member, TarError, TarReader
from gristmill.sources.tar_index import forget_index, kept_index, known_index
from gristmill.sources.tar_samples import Run, Sample, run_ahead

# Members that hold the text unless the source names another one.
_TEXT, _TEXTS, _JSON = "text", ("text", "txt"), "json"
# GNU tar packs the second of two hard-linked files as a link.
_PACK_ANEW = "Pack it with tar's --hard-dereference and --dereference"
# What a tar, what it is packed in, and what it lies on say when they break off.
_BREAKS = (TarError, SourceError, OSError)
_FEW_BYTES = 1 << 18
# How many samples are read one by one, where none are plain, before it is looked again.
_MOST_SAMPLES = 256
# What the webdataset package keeps for itself.
_META = re.compile(r"__[^/]*__($|/)")


def cut_nothing(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """A tar is read from its start: only reading tells where members begin."""
    return [Part(file, size=size)]


def read_webdataset(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a whole tar: the row is the sample's number, the id that of the JSON or the sample's key."""
    return _batches(part, 0, format, mishaps, BATCH_BYTES, numbered=True)


def resume_webdataset(part: Part, at: int | None, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents that begin in a part, or those from byte `at` on: the row is the byte at which a sample begins.

    They come in small batches: whoever reads from any byte on may want few.
    """
    first = _first(part) if at is None else at
    return iter(()) if first is None else _batches(part, first, format, mishaps, _FEW_BYTES, numbered=False)


def _first(part: Part) -> int | None:
    """Where the first sample of a part begins; none may. The headers before it tell."""
    if part.start == 0:
        return 0
    starts = kept_index(part.file.place, lambda: _starts(part.file))
    found = starts[starts.searchsorted(part.start) :][:1].tolist()
    return found[0] if found and (part.stop is None or found[0] < part.stop) else None


def _starts(file: InputFile) -> Iterator[int]:
    """The byte at which each sample begins, up to where the tar ends or breaks off, by headers alone."""
    with Stream(file) as stream, contextlib.suppress(TarError):
        for found in _Walk(TarReader(stream), Part(file), (), Mishaps()):
            yield from found.starts.tolist() if isinstance(found, Run) else (group.first.at for group in found)


def _batches(
    part: Part, at: int, format: Format, mishaps: Mishaps, most: int, *, numbered: bool
) -> Iterator[pa.RecordBatch]:
    texts = _TEXTS if format.text == _TEXT else (format.text.lower(),)
    wanted = (*(text for text in texts if text != _JSON), _JSON)
    with Stream(part.file, at, part.stop) as stream:
        tar = TarReader(stream, at, None if part.stop is None else part.stop - at)
        walk = _Walk(tar, part, wanted, mishaps)
        try:
            for found in walk:
                if isinstance(found, Run) and (batch := _at_once(found, part, format, numbered)):
                    yield batch
                else:
                    samples = found if isinstance(found, Run) else map(walk.sample, found)
                    for held in _gathered(_documents(samples, part, texts, format, mishaps, numbered), most):
                        yield _batch(part, format, held)
        except _BREAKS as error:
            if walk.cut is None and not isinstance(error, TarError):
                raise
            raise _damage(error, part, tar.at, _fate(walk.cut, texts, format)) from error
        _check_next(part, walk.after)


def _damage(error: Exception, part: Part, at: int, fate: str) -> SourceError:
    """What ends a tar early, and what became of the sample before it."""
    if isinstance(error, SourceError):
        advice = str(error).removeprefix(error.what).strip()
        return SourceError(f"{error.what}{fate}", advice, arguments=error.arguments)
    if isinstance(error, OSError):
        return SourceError(f"{part.file.path} cannot be read ({error.strerror or error}).{fate}")
    said = f"{part.file.path} is damaged, cut off or no tar after {at:,} bytes ({error}).{fate}"
    return skippable(said, "Fetch it again", " to keep what comes before")


def _fate(sample: Sample | None, texts: tuple[str, ...], format: Format) -> str:
    """What became of the sample that damage cut, as a sentence."""
    if sample is None:
        return ""
    try:
        _values(sample, texts, format, "")
    except SourceError:
        return f" Its sample {sample.key!r} breaks off there, and is left out."
    return f" The sample before that, {sample.key!r}, is kept and may lack members."


def _check_next(part: Part, after: int | None) -> None:
    """Refuse a kept index by which the next part does not begin where this one ends: samples would be left out."""
    if part.stop is None or (known := known_index(part.file.place)) is None:
        return
    if known[known.searchsorted(part.stop) :][:1].tolist() != ([] if after is None else [after]):
        forget_index(part.file.place)
        raise SourceError(
            f"{part.file.path} is another tar than the one whose samples were looked for: from byte {part.stop:,} on, "
            "some may have been left out.",
            "Start again: they are looked for anew.",
        )


def _at_once(run: Run, part: Part, format: Format, numbered: bool) -> pa.RecordBatch | None:
    """Samples of nothing but a text as a batch, without a string of Python's for any; None if a text is not plain."""
    texts = run.texts() if format.is_utf8 else None
    if texts is None:
        return None
    rows = np.arange(run.number, run.number + len(run)) if numbered else run.starts
    nothing = pa.nulls(len(run), pa.string())
    return document_batch(part.file, rows, texts, run.ids(part.file.at(ROW, "")), dict.fromkeys(format.fields, nothing))


def _documents(
    samples: Iterable[Sample], part: Part, texts: tuple[str, ...], format: Format, mishaps: Mishaps, numbered: bool
) -> Iterator[tuple[int, Values]]:
    for sample in samples:
        name, place = part.file.at(ROW, sample.key), sample.number if numbered else sample.at
        try:
            id, *values = _values(sample, texts, format, f"{part.file.path}, sample {sample.key!r}")
        except SourceError as error:
            if not sample.cut:  # of one that is, the damage tells
                mishaps.report(error, part.file, name, place)
            continue
        yield place, [name if id is None else id, *values]


def _gathered(documents: Iterator[tuple[int, Values]], most: int) -> Iterator[list[tuple[int, Values]]]:
    """Documents for one batch each, of `most` characters; where the tar breaks off, those before come first."""
    held: list[tuple[int, Values]] = []
    size = 0
    try:
        for row, values in documents:
            held.append((row, values))
            size += len(values[1] or "")
            if size >= most or len(held) >= BATCH_DOCUMENTS:
                yield held
                held, size = [], 0
    except _BREAKS:
        yield held
        raise
    yield held


class _Named(NamedTuple):
    at: int
    key: str
    suffix: str
    member: Member


class _Group(NamedTuple):
    """A sample as its members are met."""

    number: int
    first: _Named
    others: Iterator[_Named]


class _Walk:
    """The samples of a part from where its tar is on: many at once where headers are plain, else one by one."""

    def __init__(self, tar: TarReader, part: Part, wanted: tuple[str, ...], mishaps: Mishaps) -> None:
        self._tar, self._file, self._wanted, self._mishaps = tar, part.file, wanted, mishaps
        self._number, self._stop, self._ended = 0, sys.maxsize if part.stop is None else part.stop, False
        self._broken: Exception | None = None
        self.cut: Sample | None = None  # the sample that damage has cut
        self.after: int | None = None  # once all is taken, where the first sample behind the part begins, if one does

    def __iter__(self) -> Iterator[Run | Iterator[_Group]]:
        """Stretches, each to be taken before the next is asked for; they become long where nothing is plain."""
        count = 1
        while not self._ended and self._tar.at < self._stop:
            more = self._tar.more()
            run = run_ahead(self._tar, self._number, self._wanted, self._stop)
            if len(run):
                if run.ignored:
                    self._mishaps.ignored[self._file.source] += run.ignored
                self._number, count = self._number + len(run), 1
                yield run
            elif not more:
                yield self._groups(count)
                count = min(2 * count, _MOST_SAMPLES)
        if not self._ended:
            self.after = self._tar.at

    def _groups(self, count: int) -> Iterator[_Group]:
        """The next `count` samples, or more; the tar stays at the one behind them."""
        for i, (_, members) in enumerate(_grouped(self._tar, self._mishaps.ignored, self._file.source)):
            first = next(members)
            if i >= count and self._tar.go_to(first.at):
                return
            if first.at >= self._stop:
                self.after = first.at
                break
            self._number += 1
            yield _Group(self._number - 1, first, members)
            if self._broken:
                raise self._broken
        self._ended = True

    def sample(self, group: _Group) -> Sample:
        """A sample with the data of its members, as far as they are wanted.

        Where the tar breaks off behind one of them, that may have been all of them: those that are whole are given.
        Where it breaks off in one that is wanted, none is.
        """
        sample, reading = Sample(group.number, group.first.at, _cleaned(group.first.key), {}), False
        try:
            for _, _, suffix, member in itertools.chain([group.first], group.others):
                if suffix not in self._wanted:
                    self._mishaps.ignored[self._file.source] += 1
                elif member.instead:
                    sample = sample._replace(instead=(suffix, member.instead))
                elif suffix in sample.members:
                    sample = sample._replace(twice=suffix)
                else:
                    reading = True
                    sample.members[suffix] = _data(self._tar, member)
                    reading = False
        except _BREAKS as error:
            self._broken, self.cut = error, sample._replace(cut=True, members={} if reading else sample.members)
            return self.cut
        return sample


def _grouped(tar: TarReader, ignored: Counter[str], source: str) -> Iterator[tuple[str, Iterator[_Named]]]:
    """Keys with their members; what has no key is ignored, as the webdataset package does."""
    return itertools.groupby(_named(tar, ignored, source), key=lambda named: named.key)


def _named(tar: TarReader, ignored: Counter[str], source: str) -> Iterator[_Named]:
    for member in tar:
        key, suffix = _key(member.name)
        if suffix is None or (member.name.startswith("__") and _META.match(member.name)):
            ignored[source] += 1
        else:
            yield _Named(member.at, key, suffix, member)


def _key(name: str) -> tuple[str, str | None]:
    """A member's key as the name has it, and its suffix, None if it has none."""
    last = name.rfind("/") + 1
    dot = name.find(".", last)
    return (name[:dot], name[dot + 1 :].lower()) if dot > last else (name, None)


def _cleaned(key: str) -> str:
    """A key as text that any system can hold, without `..`, `.` or a leading slash."""
    if "/" not in key:
        return key if key.isascii() else portable(key)
    folder, _, stem = key.rpartition("/")
    return portable("/".join([*(step for step in folder.split("/") if step not in ("", ".", "..")), stem]))


def _data(tar: TarReader, member: Member) -> bytes | None:
    return None if member.sparse or member.size > base.MAX_DOCUMENT_BYTES else tar.data()


def _values(sample: Sample, texts: tuple[str, ...], format: Format, where: str) -> Values:
    """Id, text and fields of a sample."""
    members = sample.members
    if sample.twice:
        raise skippable(f"{where} has two members .{sample.twice}.", "Give each sample a key of its own")
    if sample.instead:
        suffix, instead = sample.instead
        raise skippable(f"{where} has a member .{suffix} that is {instead}, and no text.", _PACK_ANEW)
    if None in members.values():
        limit = base.MAX_DOCUMENT_BYTES >> 20
        raise SourceError(
            f"{where} is longer than {limit:,} MiB, or stored with holes.", "Split it, or pack it without --sparse."
        )
    beside = _object(members.get(_JSON), where)
    for suffix in texts:
        if (data := members.get(suffix)) is not None:
            text = _decoded(data, format, where)
            if not beside and format.is_utf8:  # nothing else is to be looked for, and no half of a pair can be in it
                return [None, text, *(None for _ in format.fields)]
            return parse_object({**beside, format.text: text}, format, where)
    if _JSON not in members:
        raise SourceError(
            f"{where} has no member {', '.join(f'.{text}' for text in texts)} or .json.",
            'Name the member by text="SUFFIX".',
            arguments="text",
        )
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
        return data.removeprefix(codecs.BOM_UTF8).decode() if format.is_utf8 else data.decode(format.encoding)
    except UnicodeError as error:  # some of Python's codecs do not say where
        at = getattr(error, "start", 0)
        raise SourceError(f"{where} is not {format.encoding}: byte {at:,} of its text is invalid.") from error


def _batch(part: Part, format: Format, held: list[tuple[int, Values]]) -> pa.RecordBatch:
    rows = [row for row, _ in held]
    columns = [[values[i] for _, values in held] for i in range(2 + len(format.fields))]
    ids, texts, *fields = columns
    carried = {name: pa.array(field, pa.string()) for name, field in zip(format.fields, fields, strict=True)}
    return document_batch(part.file, rows, pa.array(texts, pa.large_string()), pa.array(ids, pa.string()), carried)
