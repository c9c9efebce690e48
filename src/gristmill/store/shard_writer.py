"""Samples to WebDataset tars, which the webdataset package, `gm.stream` and any other reader of tars take.

with gm.ShardWriter("out/train-%06d.tar", maxcount=10_000) as shards:
    shards.write({"__key__": "0001", "txt": "Some text.", "json": {"url": "https://example.org"}})

The bytes are a function of the samples alone: members have no time and no owner. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, Self

import numpy as np

from gristmill.core.arguments import PathLike, as_flag, as_whole, refuse
from gristmill.core.errors import ConfigError
from gristmill.core.sizes import parse_size
from gristmill.places.door import as_target, place_at
from gristmill.places.local import disk_errors

KEY = "__key__"
_BLOCK = 512
_END = bytes(2 * _BLOCK)
# A path whose last name has no dot, since what follows the first one is the field.
_KEYS = re.compile(r"(?:[^/\0]+/)*[^/.\0]+")
_FIELDS = re.compile(r"[^/\0_][^/\0]*")
_META = re.compile(r"__[^/]*__($|/)")
_JSON = ("json", "jsn")

Sample = Mapping[str, object]


class Shards:
    """Samples to tars that `opened` gives by their numbers.

    One is full once it has `maxcount` samples or `maxsize` bytes. `total` counts the samples, `shards` the tars that
    were begun. Each tar appears when it is whole; one that an error cuts short does not.
    """

    def __init__(
        self, opened: Callable[[int], AbstractContextManager[IO[bytes]]], maxcount: int, maxsize: int, first: int = 0
    ) -> None:
        self._opened, self._maxcount, self._maxsize = opened, maxcount, maxsize
        self._numbers = itertools.count(first)
        self.total = self.shards = 0
        self._open = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        self._count = self._size = 0
        self._last: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file = None
            self._open.__exit__(kind, error, trace)

    def write(self, sample: Sample) -> None:
        """Add a sample: its `__key__`, and a member for each other name that does not begin with an underscore.

        Values are bytes, text, whole numbers, arrays under `npy`, and whatever JSON spells under `json`.
        """
        full = self._file is None or self._count >= self._maxcount or self._size >= self._maxsize
        members = _members(sample, None if full else self._last)
        if full:
            self._next()
        assert self._file is not None
        for member in members:
            self._file.write(member)
        self._size += sum(map(len, members))
        self._count, self.total, self._last = self._count + 1, self.total + 1, str(sample[KEY])

    def _next(self) -> None:
        self.close()
        self._file = self._open.enter_context(self._opened(next(self._numbers)))
        self._count = self._size = 0
        self.shards += 1

    def close(self) -> None:
        """End the tar that is being written; it appears now."""
        if self._file is not None:
            self._file.write(_END)
            self._file = None
            self._open.close()


class ShardWriter(Shards):
    """Samples to the tars that `pattern` names with their numbers, on disk or at an address such as s3://.

    A tar is full once it has `maxcount` samples or `maxsize` bytes. Numbers begin with `start_shard`, so that several
    processes can write side by side. A tar that is there already is an error unless `overwrite` is said.
    """

    def __init__(
        self,
        pattern: PathLike,
        maxcount: int = 100_000,
        maxsize: float | str = 3_000_000_000,
        *,
        start_shard: int = 0,
        overwrite: bool = False,
    ) -> None:
        names, replaces = _names(pattern), as_flag("overwrite", overwrite)
        size = as_whole("maxsize", parse_size(int(maxsize) if isinstance(maxsize, float) else maxsize, "maxsize"))

        def opened(number: int) -> AbstractContextManager[IO[bytes]]:
            place = place_at(names(number))
            with disk_errors(names(number)):
                taken = not replaces and place.exists()
            if taken:
                raise ConfigError(f"{names(number)} is there already: say overwrite=True.", arguments="overwrite")
            return place.writing()

        super().__init__(opened, as_whole("maxcount", maxcount), size, as_whole("start_shard", start_shard, 0))


def _names(pattern: PathLike) -> Callable[[int], str]:
    """The name of a tar by its number."""
    try:
        text = os.fspath(pattern)
        one, other = text % 0, text % 1
    except (TypeError, ValueError):
        one = other = ""
    if one == other or not one.endswith(".tar"):
        raise refuse("pattern", 'the name of a tar with a place for its number: "train-%06d.tar"', pattern)
    as_target("pattern", one)
    return lambda number: text % number


def _members(sample: Sample, last: str | None) -> list[bytes]:
    """The headers and the data of a sample's members; what no reader would take as it was meant is refused."""
    key = _key(sample)
    if key == last:
        raise ConfigError(f"Two samples with the key {key!r} follow each other, which readers take for one sample.")
    fields = {name: value for name, value in sample.items() if not name.startswith("_")}
    if not fields:
        raise ConfigError(f"The sample {key!r} has no members.")
    return [part for name, value in sorted(fields.items()) for part in _member(key, name, value)]


def _key(sample: Sample) -> str:
    key = sample.get(KEY) if isinstance(sample, Mapping) else None
    if not isinstance(key, str):
        raise refuse("sample", f'a mapping with a text under "{KEY}"', sample)
    steps = key.split("/")
    if not _KEYS.fullmatch(key) or _META.match(key) or "." in steps or ".." in steps:
        raise ConfigError(
            f"{key!r} cannot be a key: give a name without dots, perhaps in folders (a.b/0001), none of them `..`."
        )
    return key


def _member(key: str, field: str, value: object) -> list[bytes]:
    if not _FIELDS.fullmatch(field) or field != field.lower():
        raise ConfigError(f"{field!r} cannot be the name of a member: give lower case letters such as txt or en.md.")
    data = _encoded(field, value, f"{key}.{field}")
    header = tarfile.TarInfo(f"{key}.{field}")
    header.size, header.mode = len(data), 0o444
    try:
        head = header.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{key!r} is no text that UTF-8 can hold.") from error
    return [head, data, bytes(-len(data) % _BLOCK)]


def _encoded(field: str, value: object, name: str) -> bytes:
    """A member's bytes, by its value and the end of its name."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        if field.rpartition(".")[2] in _JSON:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, int):
            return str(value).encode()
        if field.rpartition(".")[2] == "npy":
            return _array(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be written: {error}.") from error
    raise ConfigError(
        f"{name} cannot be a {type(value).__name__}: give bytes, text, a whole number, an array as npy or JSON as "
        "json. Nothing is pickled."
    )


def _array(value: object) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(value), allow_pickle=False)
    return out.getvalue()
