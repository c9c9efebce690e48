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
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.texts import from_strings
from gristmill.sources.lines import LineTable, is_utf8

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


def read_rows(block: bytes, table: LineTable, keys: Sequence[str]) -> list[pa.Array] | None:
    """The values of keys (the text's, the id's, others) as string columns, the first a large one: a row a filled line.

    None where a line is no object with a text, or anything is so odd that Python's parser has to look at each line.
    """
    decoder = _decoder(tuple(keys))
    if decoder is None or not is_utf8(block) or (len(block) > _LONG and _has_too_many(block)):
        return None
    return _found(block, table, keys) or _decoded(block, table, keys, decoder)


def _found(block: bytes, table: LineTable, keys: Sequence[str]) -> list[pa.Array] | None:
    """By a kernel, without an object of Python's for any value."""
    names, data, begins, ends = _spelt_names(tuple(keys)), np.frombuffer(block, np.uint8), table.begins, table.ends
    if not table.filled.all():
        begins, ends = begins[table.filled], ends[table.filled]
    places = np.full((len(begins), len(keys), 2), -1, np.int64)
    if not _kernels().find(data, begins, ends, names.data, names.offsets, places):
        return None
    columns = [_spelt_at(data, *places[:, i].T, strings=not i) for i in range(len(keys))]
    return None if any(column is None for column in columns) else columns


@functools.cache
def _kernels() -> ModuleType:
    from gristmill.sources import json_kernels  # which imports Numba

    return json_kernels


_spelt_names = functools.lru_cache(maxsize=16)(from_strings)


def _decoded(
    block: bytes, table: LineTable, keys: Sequence[str], decoder: msgspec.json.Decoder[Any]
) -> list[pa.Array] | None:
    if not _may_be_objects(block, table):
        return None
    try:
        rows = decoder.decode_lines(block)
        given, ids, *fields = ([*map(attrgetter(f"field_{i}"), rows)] for i in range(len(keys)))
        if len(rows) != np.count_nonzero(table.filled) or not _NO_IDS.isdisjoint(map(type, ids)):
            return None
        texts, spelt = _texts(given), _spelling(block)
        return None if texts is None else [texts, *(_column(each, spelt) for each in (ids, *fields))]
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
    return _spelt_at(data, offsets[:-1], offsets[1:], strings=True)


def _spelt_at(data: Bytes, begins: Ints, ends: Ints, *, strings: bool) -> pa.Array | None:
    """What the values at these places spell, as a column, a large one for `strings` alone; null where a begin is -1."""
    size = int(np.maximum(ends - begins, 0).sum()) + _VECTOR_BYTES
    out, bounds = np.empty(size, np.uint8), np.empty(len(begins) + 1, np.int64)
    unescaped = _kernels().unescape(data, begins, ends, strings, out, bounds)
    if not unescaped or (not strings and bounds[-1] > _MOST_BYTES):
        return None
    texts = pa.py_buffer(out[: bounds[-1]])
    if strings:
        return pa.LargeStringArray.from_buffers(len(begins), pa.py_buffer(bounds), texts)
    there = begins >= 0
    missing = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.StringArray.from_buffers(len(begins), pa.py_buffer(bounds.astype(np.int32)), texts, missing)


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
