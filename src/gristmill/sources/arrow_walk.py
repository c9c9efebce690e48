"""Where the messages of an Arrow file lie, by their headers alone: for files of which each byte has to be fetched.

A stream takes a request a record batch, one after the other; an IPC file has a footer, so that they go side by side.
Both are believed where headers and footer agree, and reach from the first byte to the last without a gap.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import pyarrow as pa

from gristmill.core.arrow_messages import bodiless, count_rows, footer_blocks, prefix
from gristmill.places.base import Place, read_at
from gristmill.sources.held_ranges import bytes_at

FILE_MAGIC = b"ARROW1\0\0"
# What comes before a message's metadata, or ends a stream. An IPC file goes on with the footer, the length of that, and
# the magic number again.
_PREFIX_BYTES, _TAIL_BYTES = 8, 10
# What is read at once to find a header; where record batches are smaller than `_SMALL`, the bytes of many take less
# time than a request for each.
_HEAD_BYTES, _SMALL, _WINDOW_BYTES = 4 << 10, 128 << 10, 1 << 20
# Headers that are asked for at a time where a footer tells where they are.
_AT_ONCE = 16
# Of the schema its byte, its bytes, whether there are dictionaries, and 0; of a record batch its byte, the bytes up to
# its body, those of its body, and its rows.
Row = tuple[int, int, int, int]
# Of the footer: byte, bytes up to the body and those of the body of a record batch.
Block = tuple[int, int, int]


def parsed(head: memoryview) -> tuple[pa.Message, int]:
    """A message without its body, and the bytes of that, if these bytes are all that comes before it."""
    before, length = prefix(head)
    if length <= 0 or before + length != len(head):
        raise ValueError("a message has another length")
    return bodiless(head[before:])


def walk(place: Place, size: int) -> list[Row]:
    """The schema of a file of `size` bytes and its record batches; without these where dictionaries are among them.

    Anything that is not as in a plain file is an error.
    """
    with place.open(buffered=False) as file:
        window = _Window(file, size)
        schema = _schema(window)
        return _by_footer(place, window, schema) or _by_headers(window, schema)


class _Window:
    """The bytes of a file for who goes from header to header: what is read with one may have the next one too."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self.size, self.least = file, size, _HEAD_BYTES
        self._start, self._data = 0, b""

    def read(self, start: int, size: int) -> memoryview:
        """A range, which has to lie in the file."""
        if not 0 <= start <= start + size <= self.size:
            raise ValueError("a message reaches beyond the file")
        if not self._start <= start <= start + size <= self._start + len(self._data):
            self._start, self._data = start, read_at(self._file, start, min(max(size, self.least), self.size - start))
        return memoryview(self._data)[start - self._start :][:size]

    def message(self, at: int) -> tuple[pa.Message, int, int] | None:
        """The message at a byte, the bytes up to its body, and those of that; None where there are no more."""
        if at == self.size:
            return None
        before, length = prefix(self.read(at, min(_PREFIX_BYTES, self.size - at)))
        if not length:
            return None
        message, body = parsed(self.read(at, before + length))
        if not 0 <= body <= self.size - at - before - length:
            raise ValueError("a message reaches beyond the file")
        return message, before + length, body


def _schema(window: _Window) -> Row:
    start = window.read(0, min(len(FILE_MAGIC), window.size))
    begin = len(FILE_MAGIC) if start == FILE_MAGIC else 0
    found = window.message(begin)
    if found is None or found[0].type != "schema" or found[2]:
        raise ValueError("it does not begin with a schema")
    return begin, found[1], 0, 0


def _batch(at: int, message: pa.Message, head: int, body: int) -> Row:
    rows = count_rows(message) if message.type == "record batch" else -1
    if rows < 0:
        raise ValueError(f"it has a message of the kind {message.type!r}")
    return at, head, body, rows


def _by_headers(window: _Window, schema: Row) -> list[Row]:
    """From one to the next."""
    found, at = [schema], schema[0] + schema[1]
    while message := window.message(at):
        if message[0].type == "dictionary":
            return [(*schema[:2], 1, 0)]
        found.append(row := _batch(at, *message))
        window.least = _WINDOW_BYTES if row[2] < _SMALL else _HEAD_BYTES
        at += row[1] + row[2]
    return found


def _by_footer(place: Place, window: _Window, schema: Row) -> list[Row] | None:
    """Side by side, where a footer names all; None where there is none such, or record batches are small."""
    with contextlib.suppress(ValueError, struct.error):
        blocks = _blocks(window, schema)
        if blocks and sum(body for _, _, body in blocks) >= len(blocks) * _SMALL:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                heads = pool.map(lambda block: bytes_at(place, block[0], block[1]), blocks)
                return [schema, *itertools.starmap(_agreed, zip(heads, blocks, strict=True))]
    return None


def _blocks(window: _Window, schema: Row) -> list[Block]:
    """What the footer names, if that is all messages from the schema on, in order."""
    if not schema[0]:
        return []
    tail = window.read(max(window.size - _HEAD_BYTES, 0), min(_HEAD_BYTES, window.size))[-_TAIL_BYTES:]
    if tail[4:] != FILE_MAGIC[:6]:
        return []
    size = int.from_bytes(tail[:4], "little")
    # From what ends the stream on, which is looked at below.
    footer = window.read(window.size - _TAIL_BYTES - size - _PREFIX_BYTES, _PREFIX_BYTES + size)[_PREFIX_BYTES:]
    end = schema[0] + schema[1]
    blocks = footer_blocks(footer) or []
    for at, head, body in blocks:
        if at != end or head <= 0 or not 0 <= body <= window.size - end - head:
            return []
        end += head + body
    return blocks if window.message(end) is None else []


def _agreed(head: bytes, block: Block) -> Row:
    """A record batch by its header, if that says what the footer does."""
    message, body = parsed(memoryview(head))
    if body != block[2]:
        raise ValueError("the footer names another message")
    return _batch(block[0], message, len(head), body)
