"""The members of a tar out of a stream, in bounded memory: ustar, GNU and PAX, as Python's `tarfile` names them.

A tar that is whole ends with a block of zeros; one without has been cut off, wherever that was. What follows such a
block is read, too: tars may be joined with `cat`. No size that a header claims is believed before its bytes are there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from gristmill.sources.streams import Stream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 512
_BUFFER_BYTES = 1 << 20
# Names, and what PAX tells of a member: longer headers are nobody's names.
_MOST_HEADER_BYTES = 1 << 20

_FILES, _SPARSE = (b"0", b"\0", b"7", b"S"), b"S"
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = (b"x", b"X"), b"g", b"L", b"K"


class TarError(Exception):
    """The bytes are no tar, or not a whole one."""


@dataclass(frozen=True)
class Member:
    """A file in a tar; `sparse` ones hold a map of their holes beside their data."""

    name: str
    size: int
    sparse: bool


class TarReader:
    """The files of a tar in their order; the data of each can be read before the next one is asked for."""

    def __init__(self, stream: Stream) -> None:
        self._blocks: IO[bytes] = io.BufferedReader(_Raw(stream), _BUFFER_BYTES)
        self._left = self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        everywhere: dict[str, str] = {}
        told: dict[str, str] = {}
        while header := self._next_header():
            if header.kind == _PAX_GLOBAL:
                everywhere |= _records(self._told(header))
            elif header.kind in _PAX:
                told |= _records(self._told(header))
            elif header.kind == _LONG_NAME:
                told["path"] = _text(self._told(header))
            elif header.kind == _LONG_LINK:
                self._open(header.size)
            else:
                yield from self._file(header, {**everywhere, **told})
                told = {}

    def data(self) -> bytes:
        """What is left of the present member's bytes."""
        data = self._blocks.read(self._left)
        self._left -= len(data)
        if self._left:
            raise TarError("a member breaks off")
        return data

    def _file(self, header: _Header, told: dict[str, str]) -> Iterator[Member]:
        """The member of a header, if it is a file; what PAX has told of it counts."""
        name = told.get("GNU.sparse.name", told.get("path", header.name))
        is_file = header.kind in _FILES and not (header.kind == b"\0" and name.endswith("/"))
        self._open(_decimal(told["size"]) if "size" in told else header.size, has_data=is_file or header.has_data)
        if header.kind == _SPARSE:
            self._skip_sparse_maps(header)
        if is_file:
            sparse = header.kind == _SPARSE or any(key.startswith("GNU.sparse.") for key in told)
            yield Member(name, self._left, sparse)

    def _open(self, size: int, has_data: bool = True) -> None:
        """Expect a member's bytes, and zeros up to the next block."""
        self._left = size if has_data else 0
        self._padding = -self._left % BLOCK

    def _told(self, header: _Header) -> bytes:
        """The bytes of a header that tells of other members."""
        if header.size > _MOST_HEADER_BYTES:
            raise TarError(f"a header claims {header.size:,} bytes")
        self._open(header.size)
        return self.data()

    def _skip_sparse_maps(self, header: _Header) -> None:
        """Old sparse files have more blocks of their map before their data."""
        more = header.more_maps
        while more:
            block = self._blocks.read(BLOCK)
            if len(block) < BLOCK:
                raise TarError("a map of holes breaks off")
            more = block[504] != 0

    def _next_header(self) -> _Header | None:
        """The next header, behind what is left of this member; None at the end."""
        self._skip(self._left + self._padding)
        self._left = self._padding = 0
        ended = False
        while block := self._blocks.read(BLOCK):
            if block.count(0) < len(block):
                return _Header(block)
            ended = True
        if not ended:
            raise TarError("it has no end")
        return None

    def _skip(self, size: int) -> None:
        while size > 0:
            passed = len(self._blocks.read(min(size, _BUFFER_BYTES)))
            if not passed:
                raise TarError("a member breaks off")
            size -= passed


class _Header:
    """The 512 bytes before a member, of which the checksum says that they are such."""

    def __init__(self, block: bytes) -> None:
        if len(block) < BLOCK:
            raise TarError("a header breaks off")
        given, rest = _number(block[148:156]), block[:148] + b" " * 8 + block[156:]
        if given not in (sum(rest), sum(byte - (byte & 128) * 2 for byte in rest)):  # some systems add up signed bytes
            raise TarError("a header has a wrong checksum")
        self.kind, self.size = block[156:157], _number(block[124:136])
        prefix = "" if self.kind == _SPARSE else _text(block[345:500])
        self.name = f"{prefix}/{_text(block[:100])}" if prefix else _text(block[:100])
        self.more_maps = block[482] != 0

    @property
    def has_data(self) -> bool:
        """Whether `size` bytes follow: links, devices and folders may name a size, and have none."""
        return self.kind not in _WITHOUT_DATA


def _text(field: bytes) -> str:
    """A field up to its NUL; bytes that are no UTF-8 are kept as Python keeps those of file names."""
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    """Octal digits, or a binary number behind a byte 128."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if digits.strip(b"01234567"):
        raise TarError("a header has a bad number")
    return int(digits or b"0", 8)


def _decimal(digits: str) -> int:
    """A size as PAX writes it."""
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise TarError("a header has a bad size")
    return int(digits)


def _records(data: bytes) -> dict[str, str]:
    """What a PAX header tells: records of `LENGTH KEY=VALUE` and a line break."""
    told, at = {}, 0
    while at < len(data) and data[at]:
        length = data[at : at + 20].partition(b" ")[0].decode("latin-1")
        end = at + _decimal(length)
        key, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if end <= at + len(length) + 2 or data[end - 1 : end] != b"\n" or not equals:
            raise TarError("a PAX header is damaged")
        told[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        at = end
    return told


class _Raw(io.RawIOBase):
    """A stream in the shape that Python's buffered reader wants."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer)
        data = self._stream.read(len(room))
        room[: len(data)] = data
        return len(data)
