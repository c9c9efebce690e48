"""Whole lines out of a stream, and how a file of lines is cut.

A part owns the lines that begin after its first byte and up to its last plus one: so a reader needs no byte before
its part, skips to the first line break, and reads to the end of the line that crosses its end.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Part, parts_from, skippable
from gristmill.sources.streams import CHUNK_BYTES, Readable, Stream, Transcoded, packing_of
from gristmill.sources.zstd_frames import frame_edges

_BREAK, _MARK = b"\n", codecs.BOM_UTF8
# Room for as many lines as there probably are; where there are more, they are looked for again.
_FEW_LINES, _LINE_BYTES = 64, 128
# What is read beyond a part's end, to where its last line ends; and once more, where it does not end there.
_BEYOND, _FURTHER = 1 << 16, 1 << 19


def cut_bytes(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Stretches of bytes of a plain file, or of whole frames of a zstd file with a seek table; else the whole file."""
    packing = packing_of(file.path)
    if packing == "zstd" and format.is_utf8:
        return parts_from(file, frame_edges(file.path, unit_bytes), size)
    return parts_from(file, [] if packing or not format.is_utf8 else range(0, size, unit_bytes), size)


def read_blocks(stream: Readable, start: int, stop: int | None) -> Iterator[tuple[int, memoryview | None]]:
    """The lines that a part owns as (byte of the first, whole lines of about 8 MiB), where they lie in what was read.

    A line longer than MAX_DOCUMENT_BYTES is passed over in bounded memory: its byte comes with None.
    """
    last = sys.maxsize if stop is None else stop
    return itertools.takewhile(lambda block: block[0] <= last, _whole_lines(stream, start, last))


def _whole_lines(stream: Readable, start: int, last: int) -> Iterator[tuple[int, memoryview | None]]:
    """All lines after the first break at or after `start` (at 0, from there), at least up to byte `last`."""
    at, held, passing = start, bytearray(), start > 0  # `held` begins at `at`; passing: inside a line that is left out
    while not (passing and at >= last):
        chunk, broken = _read_to(stream, last - at - len(held))
        if not chunk:
            break
        if not passing and _first_is_too_long(held, chunk):
            yield at, None
            passing = True
        first = 0
        if passing:
            first = chunk.find(_BREAK) + 1
            at += len(held) + (first or len(chunk))
            held, passing = bytearray(), not first
        if not passing:
            end = _lines_end(chunk, first + max(last - at - len(held), 0))
            lines = memoryview(chunk)[first:end]
            if end > first:
                lines = memoryview(b"".join((held, lines))) if held else lines
                yield from _without_long_lines(at, lines)
                at, held = at + len(lines), bytearray()
            if at > last:
                return
            held += memoryview(chunk)[max(first, end) :]
        if broken:
            raise broken
    if held:
        yield at, memoryview(bytes(held))


def _read_to(stream: Readable, last: int) -> tuple[bytes, Exception | None]:
    """The next bytes of a stream: with the end of the line that holds byte `last`, if it is neither far nor long.

    So that line comes with those before it: a second block for it alone takes as long as a large one. Where the stream
    breaks off on the way to it, its error comes beside what there is.
    """
    chunk = stream.read(min(CHUNK_BYTES, max(last, 0) + _BEYOND))
    if not 0 <= last < len(chunk) or chunk.find(_BREAK, last) >= 0:
        return chunk, None
    try:
        return chunk + stream.read(_FURTHER), None
    except (SourceError, OSError) as error:
        return chunk, error


def _lines_end(chunk: bytes, last: int) -> int:
    """Where the line ends that holds byte `last` of a chunk, or the last whole one before it."""
    return chunk.find(_BREAK, last) + 1 or chunk.rfind(_BREAK) + 1


def _without_long_lines(at: int, lines: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """The block as it is; one that is over the limit line by line."""
    if len(lines) <= base.MAX_DOCUMENT_BYTES:
        yield at, lines
        return
    for line in bytes(lines).removesuffix(_BREAK).split(_BREAK):
        yield at, memoryview(line + _BREAK) if len(line) < base.MAX_DOCUMENT_BYTES else None
        at += len(line) + 1


def _first_is_too_long(held: bytearray, chunk: bytes) -> bool:
    """Whether the line that `held` begins, and that perhaps ends in `chunk`, is over the limit with its break."""
    limit = base.MAX_DOCUMENT_BYTES
    return len(held) + len(chunk) > limit and chunk.find(_BREAK, 0, limit - len(held)) < 0


@dataclass(frozen=True)
class LineTable:
    """The lines of a block: where each begins, where its text ends (before its break), and whether it is not blank."""

    begins: Ints
    ends: Ints
    filled: npt.NDArray[np.bool_]


def lines_room(size: int) -> int:
    """As many lines as so many bytes probably are, and more."""
    return _FEW_LINES + size // _LINE_BYTES


def tabulate(block: bytes | memoryview) -> LineTable:
    """All lines of a block, which may lack the last break."""
    from gristmill.sources.line_kernels import tabulate as locate  # which imports Numba

    data, room = np.frombuffer(block, np.uint8), lines_room(len(block))
    while True:
        begins, ends, filled = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_)
        count = locate(data, begins, ends, filled)
        if count <= room:
            return LineTable(begins[:count], ends[:count], filled[:count])
        room = count


def text_blocks(
    part: Part, format: Format, stop: int | None, lines_of: Callable[[Readable], Readable] | None = None
) -> Iterator[tuple[int, memoryview | None]]:
    """The blocks of a part of a file as UTF-8, without the byte order mark that may open the file.

    `lines_of` makes lines of what has none.
    """
    with open_text(part, format) as stream:
        for at, block in read_blocks(lines_of(stream) if lines_of else stream, part.start, stop):
            mark = len(_MARK) if at == 0 and block and bytes(block[: len(_MARK)]) == _MARK else 0
            if block is None or len(block) > mark:
                yield at + mark, block[mark:] if block and mark else block


@contextlib.contextmanager
def open_text(part: Part, format: Format) -> Iterator[Readable]:
    """A part's file from its start on, as UTF-8."""
    with Stream(part.file, part.start, part.stop) as stream:
        yield stream if format.is_utf8 else Transcoded(stream, format.encoding, part.file.path)


def read_whole(stream: Readable, most: int, chunk_bytes: int = CHUNK_BYTES) -> bytes | None:
    """All bytes of a stream; None if they are more than `most`."""
    chunks, size = [], 0
    while size <= most and (chunk := stream.read(min(CHUNK_BYTES, chunk_bytes))):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks) if size <= most else None


def where(part: Part, at: int, number: int) -> str:
    """The place of a document for a message: its line, which only the first part of a file can tell, or its byte."""
    return f"{part.file.path}, line {number:,}" if part.start == 0 else f"{part.file.path}, byte {at:,}"


def too_long(place: str) -> SourceError:
    """The error for a document over the limit."""
    limit = base.MAX_DOCUMENT_BYTES >> 20
    return skippable(f"{place} is longer than {limit:,} MiB.", "Split it")


def is_utf8(data: bytes | memoryview) -> bool:
    """Whether bytes are valid UTF-8, at several GB/s."""
    whole = pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)])), pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
