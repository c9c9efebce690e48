"""How many rows of a Parquet row group may be read at once: by the sizes in front of its pages, which bind the reader.

A column is a run of pages, each behind a header in Thrift's compact protocol that says how large it is unpacked. Rows
of a page that names values of a dictionary may each be as long as the dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile

# The fields of a header by number: whole numbers, flags and further fields.
Fields = dict[int, object]

# What the rows that are read at once may take, beside the largest page, which is always read whole.
_MOST_BYTES = 64 << 20
MAX_PAGE_BYTES = 1 << 30
_HEADER_BYTES, _MOST_HEADER_BYTES = 128, 16 << 20
# Numbers of fields in a page's header, and of the kinds of pages.
_KIND, _UNPACKED, _PACKED, _DATA, _DATA_2 = 1, 2, 3, 5, 8
_NUM_VALUES = 1
_DICTIONARY = 2


@dataclass(frozen=True)
class _Page:
    is_dictionary: bool
    unpacked: int
    values: int


def rows_at_once(
    source: pa.NativeFile, chunks: Sequence[pq.ColumnChunkMetaData], rows: int, file: InputFile, most: int
) -> int:
    """Rows, `most` or fewer, that can be held for each of a row group's columns, which has `rows` in all."""
    return min([most, *(_rows(_checked(source, chunk, file), chunk.num_values / max(rows, 1), most)
                        for chunk in chunks)])  # fmt: skip


def _checked(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData, file: InputFile) -> list[_Page]:
    """The pages of a column, if each can be held."""
    pages = list(_pages(source, chunk))
    largest = max((page.unpacked for page in pages), default=0)
    if largest > MAX_PAGE_BYTES:
        raise SourceError(
            f"{file.path} has a page of {largest >> 20:,} MiB in column {chunk.path_in_schema!r}, and "
            f"{MAX_PAGE_BYTES >> 20:,} are the most that is read at once.",
            "Write it with smaller row groups.",
        )
    return pages


def _rows(pages: Sequence[_Page], values_a_row: float, most: int) -> int:
    """Rows such that those of any run fit: in the pages that they lie in, and as long as values of the dictionary."""
    named = max((page.unpacked for page in pages if page.is_dictionary), default=0)
    rows = int(max(1, min(most, _MOST_BYTES / max(named * values_a_row, 1))))
    data = [page for page in pages if not page.is_dictionary]
    ends = np.cumsum([page.values for page in data], dtype=np.int64)
    sums = np.cumsum([0, *(page.unpacked for page in data)], dtype=np.int64)
    fit = _MOST_BYTES + max((page.unpacked for page in data), default=0)
    while rows > 1 and _largest_run(ends, sums, rows) > fit:
        rows //= 2
    return rows


def _largest_run(ends: Ints, sums: Ints, rows: int) -> int:
    """The bytes of the pages that `rows` values from the last one of any page on may lie in."""
    last = np.minimum(np.searchsorted(ends, ends - 1 + rows), len(ends) - 1)
    return int((sums[last + 1] - sums[:-1]).max(initial=0))


def span_of(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """The bytes [start, end) of a column in its file."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    return at, at + chunk.total_compressed_size


def _pages(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[_Page]:
    (at, end), left = span_of(chunk), chunk.num_values
    while at < end and left > 0:
        fields, size = _header(source, at, end)
        page = _Page(_number(fields, _KIND) == _DICTIONARY, _number(fields, _UNPACKED), _values(fields))
        yield page
        at, left = at + size + _number(fields, _PACKED), left - page.values


def _values(fields: Fields) -> int:
    inner = fields.get(_DATA) or fields.get(_DATA_2)
    return _number(inner, _NUM_VALUES) if isinstance(inner, dict) else 0


def _number(fields: Fields, field: int) -> int:
    value = fields.get(field)
    if type(value) is not int or value < 0:
        raise ValueError("a page's header has a wrong size")
    return value


def _header(source: pa.NativeFile, at: int, end: int) -> tuple[Fields, int]:
    """The fields of the header at a byte of the file, and its size; nothing behind the column's `end` is read for it
    unless it goes on there: of a file elsewhere that would be one request more.
    """
    size = min(_HEADER_BYTES, end - at)
    while True:
        data = source.read_at(size, at)
        try:
            reader = _Compact(data)
            fields = reader.struct()
        except IndexError as error:
            if len(data) < size or size > _MOST_HEADER_BYTES:
                raise ValueError("a page's header breaks off") from error
            size = end - at if size < end - at < 16 * size else 16 * size
            continue
        return fields, reader.at


class _Compact:
    """Reads Thrift's compact protocol; what lies beyond the data is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> Fields:
        """The fields of a struct by number: whole numbers and structs; all else is passed over."""
        if depth > 8:
            raise ValueError("a page's header is nested too deep")
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):
            self._list(depth)
            return None
        if kind not in (3, 7, 8):
            raise ValueError(f"a page's header has a field of kind {kind}")
        self._skip(self._unsigned() if kind == 8 else {3: 1, 7: 8}[kind])
        return None

    def _list(self, depth: int) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        for _ in range(count):
            self._value(head & 15, depth + 1)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise IndexError("beyond the data")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a page's header has a number of too many bytes")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
