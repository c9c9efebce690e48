"""Whole blocks of JSON lines: by a kernel, and by msgspec where values are carried that are objects themselves.

Neither makes anything of values that nobody asked for.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.texts import from_strings
from gristmill.sources.lines import LineTable, is_utf8, lines_room, tabulate

# A value takes up to 200 bytes once it is made: a line with more of them than this is refused.
_MOST_VALUES = 4_000_000
# Blocks are of 8 MiB, unless a line is longer: only these are counted through.
_LONG = 10 << 20
# What a column of strings that are not large can hold.
_MOST_BYTES = (1 << 31) - 1
# What msgspec compares keys with is spelt without escapes.
_PLAIN_KEY = re.compile(r'[^"\\\x00-\x1f.]+')
_BLANK = np.isin(np.arange(256), [*b" \t\r"])
_MOST_BLANKS = 16
_NO_IDS = {dict, list}
_STRING = pa.string()
# What is written at once, of which less may be wanted.
_VECTOR_BYTES = 64
_MINUS_ZERO = re.compile(rb"-0[\s,}]")


@dataclass(frozen=True)
class Number:
    """A number as it is spelt in the file: its digits are kept, however many there are."""

    spelling: str

    @property
    def value(self) -> int | float:
        return int(self.spelling) if self.spelling.lstrip("-").isdigit() else float(self.spelling)


def parse_json(data: bytes) -> object:
    """A JSON value by Python's parser, its numbers as they are spelt."""
    if _has_too_many(data):
        raise ValueError(f"more than {_MOST_VALUES:,} values")
    return json.loads(data, parse_int=Number, parse_float=Number)


def _has_too_many(data: bytes) -> bool:
    return len(data) > _MOST_VALUES and data.count(b",") > _MOST_VALUES


def compact(value: object) -> str:
    """A value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda number: number.value)


class Found(NamedTuple):
    """Of how many lines a block is, where those begin that are not blank, and the values of keys as string columns."""

    lines: int
    begins: Ints
    columns: list[pa.Array]


def read_rows(block: bytes | memoryview, keys: Sequence[str]) -> Found | None:
    """The values of keys (the text's, the id's, others), a row a filled line; the first column is a large one.

    None where a line is no object with a text, or anything is so odd that Python's parser has to look at each line.
    """
    decoder = _decoder(tuple(keys))
    if decoder is None or not is_utf8(block) or (len(block) > _LONG and _has_too_many(bytes(block))):
        return None
    return _found(np.frombuffer(block, np.uint8), keys) or _decoded(bytes(block), keys, decoder)


def _found(data: Bytes, keys: Sequence[str]) -> Found | None:
    """By a kernel, without an object of Python's for any value."""
    names, out = _spelt_names(tuple(keys)), np.empty(len(data) + _VECTOR_BYTES, np.uint8)
    count, room = -1, lines_room(len(data))
    while count < 0:
        begins, bounds = np.empty(room, np.int64), np.empty(room + 1, np.int64)
        places = np.empty((room, len(keys), 2), np.int64)
        found, lines = _kernels().read_lines(data, names.data, names.offsets, begins, places, out, bounds)
        if found < 0:
            return None
        count, room = found if found <= room else -1, found
    texts = _whole(out, bounds[: count + 1])
    others = [_spelt_at(data, *places[:count, i].T) for i in range(1, len(keys))]
    return None if any(column is None for column in others) else Found(lines, begins[:count], [texts, *others])


def _whole(out: Bytes, bounds: Ints) -> pa.Array:
    """Texts as a column, which does not hold much more memory than it needs."""
    size = int(bounds[-1])
    data = out[:size] if 2 * size > len(out) else out[:size].copy()
    return pa.LargeStringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(data))


@functools.cache
def _kernels() -> ModuleType:
    from gristmill.sources import json_kernels  # which imports Numba

    return json_kernels


_spelt_names = functools.lru_cache(maxsize=16)(from_strings)


def _decoded(block: bytes, keys: Sequence[str], decoder: msgspec.json.Decoder[Any]) -> Found | None:
    table = tabulate(block)
    if not _may_be_objects(block, table):
        return None
    try:
        rows = decoder.decode_lines(block)
        given, ids, *fields = ([*map(attrgetter(f"field_{i}"), rows)] for i in range(len(keys)))
        if len(rows) != np.count_nonzero(table.filled) or not _NO_IDS.isdisjoint(map(type, ids)):
            return None
        texts, spelt = _texts(given), _spelling(block)
        if texts is None:
            return None
        columns = [texts, *(_column(each, spelt) for each in (ids, *fields))]
        return Found(len(table.begins), table.begins[table.filled], columns)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@functools.lru_cache(maxsize=16)
def _decoder(keys: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """Reads objects with a value under the first key; None for keys that lie inside of others, or are odd.

    That value stays as it is spelt: strings of Python would have to become UTF-8 again, which took as long as all else.
    """
    if len({*keys}) < len(keys) or not all(map(_PLAIN_KEY.fullmatch, keys)):
        return None
    names = [f"field_{i}" for i in range(len(keys))]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (names[0], msgspec.Raw),
        *((name, Any, None) for name in names[1:]),
    ]
    row = msgspec.defstruct("Row", fields, rename=dict(zip(names, keys, strict=True)), gc=False)
    return msgspec.json.Decoder(row, float_hook=Number)


def _may_be_objects(block: bytes, table: LineTable) -> bool:
    """Whether each line begins and ends as an object: then no value crosses a line break, which msgspec would pass."""
    data = np.frombuffer(block, np.uint8)
    firsts = _past_blanks(data, table.begins[table.filled], 1)
    lasts = _past_blanks(data, table.ends[table.filled] - 1, -1)
    return bool((data[firsts] == ord("{")).all() and (data[lasts] == ord("}")).all())


def _past_blanks(data: Bytes, places: Ints, step: int) -> Ints:
    """The places, moved by a few blanks where they lie on some."""
    for _ in range(_MOST_BLANKS):
        blank = _BLANK[data[places]]
        if not blank.any():
            break
        places = places + step * blank
    return places


def _texts(values: list[msgspec.Raw]) -> pa.Array | None:
    """What strings spell, as a column; None where one is no string, or no text."""
    data, offsets = np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)])
    out, bounds = np.empty(len(data) + _VECTOR_BYTES, np.uint8), np.empty(len(offsets), np.int64)
    return _whole(out, bounds) if _kernels().unescape(data, offsets[:-1], offsets[1:], True, out, bounds) else None


def _spelt_at(data: Bytes, begins: Ints, ends: Ints) -> pa.Array | None:
    """What the values at these places spell, as a column; null where a begin is -1."""
    there = begins >= 0
    missing = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    lengths = (ends - begins)[there] if missing else ends - begins  # of null the end alone is noted
    size = int(lengths.sum()) + _VECTOR_BYTES
    out, bounds = np.empty(size, np.uint8), np.empty(len(begins) + 1, np.int64)
    if not _kernels().unescape(data, begins, ends, False, out, bounds) or bounds[-1] > _MOST_BYTES:
        return None
    offsets, texts = pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(out[: bounds[-1]])
    return pa.StringArray.from_buffers(len(begins), offsets, texts, missing)


def _column(values: list[object], spelt: Callable[[object], str | None]) -> pa.Array:
    try:
        return pa.array(values, _STRING)
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([*map(spelt, values)], _STRING)


def _spelling(block: bytes) -> Callable[[object], str | None]:
    """How the values of a block are spelt; what needs a second look is a ValueError."""

    def spelt(value: object) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, Number):
            return value.spelling
        if type(value) is int and not value and _MINUS_ZERO.search(block):  # its sign is lost
            raise ValueError
        return compact(value)

    return spelt
