"""Plain text: a document a file, a line that is not blank, or a paragraph between blank lines.

A byte order mark at the file's start is no part of the text and is left out. A NUL byte is the mark of a binary file,
or of UTF-16, and is refused.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Mishaps, Part, skippable
from gristmill.sources.batches import BYTE, document_batch, place_ids
from gristmill.sources.lines import cut_bytes, is_utf8, open_text, read_whole, tabulate, text_blocks, too_long, where


def cut_text(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Stretches of lines or paragraphs; a file that is one document stays whole."""
    return [Part(file, size=size)] if format.documents == "file" else cut_bytes(file, format, size, unit_bytes)


def read_text(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a part, line ends inside them as they are."""
    if format.documents == "file":
        return _read_file(part, format)
    return _read_spans(part, format, mishaps)


def _read_file(part: Part, format: Format) -> Iterator[pa.RecordBatch]:
    """The file as one document: its id is source and name."""
    file = part.file
    data = _whole(part, format)
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    _check(data, f"{file.path}", mark)
    text = pa.array([data[mark:].decode()], pa.large_string())
    yield document_batch(file, [0], text, pa.array([f"{file.source}/{file.name}"]), _nulls(format, 1))


def _whole(part: Part, format: Format) -> bytes:
    with open_text(part, format) as stream:
        data = read_whole(stream, base.MAX_DOCUMENT_BYTES, part.size + 1)
    if data is None:
        raise SourceError(
            f"{part.file.path} is one document of more than {base.MAX_DOCUMENT_BYTES >> 20:,} MiB.",
            "Say what a document is in it with `documents: paragraph` or `documents: line`.",
        )
    return data


def _check(data: bytes, what: str, mark: int = 0) -> None:
    """Refuse what is no UTF-8 text, naming the byte."""
    if (nul := data.find(b"\0")) >= 0:
        raise skippable(
            f"{what} is not text: byte {nul:,} is NUL, as in binary files and UTF-16.",
            "Leave it out, name its encoding",
        )
    try:
        codecs.utf_8_decode(memoryview(data)[mark:], "strict", True)
    except UnicodeDecodeError as error:
        raise skippable(
            f"{what} is not UTF-8: byte {error.start + mark:,} is invalid.", "Convert it, name its encoding"
        ) from error


@dataclass(frozen=True)
class _Spans:
    """Documents inside a block that begins at byte `at`: where each begins and ends, and the number of its line."""

    at: int
    block: bytes
    begins: Ints
    ends: Ints
    numbers: Ints


def _read_spans(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    spans_of = _lines if format.documents == "line" else _paragraphs
    for spans in spans_of(part, format, mishaps):
        may_be_bad = len(spans.block) > base.MAX_DOCUMENT_BYTES or b"\0" in spans.block or not is_utf8(spans.block)
        good = _good_ones(spans, part, mishaps) if may_be_bad else np.ones(len(spans.begins), np.bool_)
        yield _batch(part, format, spans, np.flatnonzero(good))


def _lines(part: Part, format: Format, mishaps: Mishaps) -> Iterator[_Spans]:
    """Every line that is not blank, without its end."""
    before = 0
    for at, block in text_blocks(part, format, part.stop):
        if block is None:
            mishaps.report(too_long(where(part, at, before + 1)), part.file, part.file.at(BYTE, at), at)
            before += 1
            continue
        table = tabulate(block)
        filled = np.flatnonzero(table.filled)
        yield _Spans(at, bytes(block), table.begins[filled], table.ends[filled], before + 1 + filled)
        before += len(table.begins)


def _paragraphs(part: Part, format: Format, mishaps: Mishaps) -> Iterator[_Spans]:
    """Runs of lines that are not blank. A paragraph belongs to the part that owns the blank line before it."""
    stop = sys.maxsize if part.stop is None else part.stop
    passing, blank = part.start > 0, -1  # passing: inside a paragraph of no use; else `blank` is the blank line before
    for at, before, block in _stretches(text_blocks(part, format, None)):
        if block is None:
            if not passing:
                mishaps.report(too_long(where(part, at, before + 1)), part.file, part.file.at(BYTE, at), at)
            passing = True
            continue
        table = tabulate(block)
        begins = at + np.concatenate(([0], table.begins))
        filled = np.concatenate(([False], table.filled, [False]))
        first, last = np.flatnonzero(filled[1:-1] & ~filled[:-2]), np.flatnonzero(filled[1:-1] & ~filled[2:])
        begins[0] = blank
        owned = (begins[first] <= stop) & ~((first == 0) & passing)
        first, last = first[owned], last[owned]
        yield _Spans(at, block, table.begins[first], table.ends[last], before + 1 + first)
        blank, passing = int(begins[-1]), False
        if blank > stop:
            return


def _stretches(blocks: Iterator[tuple[int, memoryview | None]]) -> Iterator[tuple[int, int, bytes | None]]:
    """Lines as (first byte, number of lines before, lines up to and with a blank one, or up to the file's end).

    Where a paragraph is over the limit, None comes instead, and what follows begins inside of it.
    """
    at, before, held = 0, 0, b""
    for start, block in blocks:
        at = start - len(held)
        lines = held + bytes(block or b"")
        cut = _after_last_blank(lines) if block else 0
        if cut:
            yield at, before, lines[:cut]
        at, before, held = at + cut, before + lines.count(b"\n", 0, cut), lines[cut:]
        if block is None or len(held) > base.MAX_DOCUMENT_BYTES + len(b"\r\n"):
            yield at, before, None
            before, held = before + held.count(b"\n") + (block is None), b""
    if held:
        yield at, before, held


def _after_last_blank(lines: bytes) -> int:
    """The byte after the last blank line; 0 if there is none."""
    table = tabulate(lines)
    blank = np.flatnonzero(~table.filled)
    return min(int(np.append(table.begins, len(lines))[blank[-1] + 1]), len(lines)) if len(blank) else 0


def _good_ones(spans: _Spans, part: Part, mishaps: Mishaps) -> npt.NDArray[np.bool_]:
    """Which documents are text; the others are reported."""
    good = np.ones(len(spans.begins), np.bool_)
    for i, (begin, end) in enumerate(zip(spans.begins.tolist(), spans.ends.tolist(), strict=True)):
        at = spans.at + begin
        place = where(part, at, int(spans.numbers[i]))
        try:
            if end - begin > base.MAX_DOCUMENT_BYTES:
                raise too_long(place)
            _check(spans.block[begin:end], place)
        except SourceError as error:
            mishaps.report(error, part.file, part.file.at(BYTE, at), at)
            good[i] = False
    return good


def _batch(part: Part, format: Format, spans: _Spans, chosen: Ints) -> pa.RecordBatch:
    places = spans.at + spans.begins[chosen]
    texts = _cut_out(spans.block, spans.begins[chosen], spans.ends[chosen])
    return document_batch(part.file, places, texts, place_ids(part.file, BYTE, places), _nulls(format, len(places)))


def _cut_out(block: bytes, begins: Ints, ends: Ints) -> pa.Array:
    """Stretches of a block as Arrow strings: of a column of stretches and gaps, without a copy, every second one."""
    edges = np.column_stack((begins, ends)).ravel()
    if not len(edges):
        return pa.array([], pa.large_string())
    both = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(block))
    return both.take(pa.array(np.arange(0, len(edges), 2)))


def _nulls(format: Format, count: int) -> dict[str, pa.Array]:
    """Plain text has no fields to carry."""
    return {name: pa.nulls(count, pa.string()) for name in format.fields}
