"""The members of a tar out of a stream, in bounded memory: ustar, GNU and PAX, as Python's `tarfile` names them.

A tar that is whole ends with a block of zeros; one without has been cut off, wherever that was. What follows the end of
a tar is read, too, since tars may be joined with `cat`; other zeros between members are a hole. No size that a header
claims is believed before its bytes are there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from gristmill.core.errors import SourceError
from gristmill.sources.streams import Stream

BLOCK = 512
# GNU tar, BSD tar in a pipe and Python's tarfile fill their last record with zeros; others end with two blocks of them.
_RECORD, _END_BLOCKS = 20 * BLOCK, 2
_ADLER = 65_521
# What is read at once, beyond what is wanted (the end of its last sample, and the header after it), and once more,
# where that does not end there.
_BUFFER_BYTES, _BEYOND, _FURTHER = 1 << 20, 1 << 16, 1 << 19
# Names, and what PAX tells of a member: longer headers are nobody's names.
_MOST_HEADER_BYTES = 1 << 20

_FILES, _SPARSE = (b"0", b"\0", b"7", b"S"), b"S"
_LINKS, _WITHOUT_DATA = (b"1", b"2"), (b"1", b"2", b"3", b"4", b"5", b"6")
# Folders, and the name of a volume: no program packs a document as one.
_NO_MEMBERS = (b"5", b"D", b"V")
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = (b"x", b"X"), b"g", b"L", b"K"


class TarError(Exception):
    """The bytes are no tar, or not a whole one."""


@dataclass(frozen=True)
class Member:
    """A member of a tar, whose first header lies at byte `at`; `sparse` ones hold a map of their holes beside data.

    `instead` says what it is where it is no file, and then it has no data.
    """

    at: int
    name: str
    size: int
    sparse: bool
    instead: str = ""


class TarReader:
    """The members of a tar in their order, without folders; the data of each can be read before the next is asked for.

    `stream` begins at byte `at` of the tar, where the first header of a member is. Of it about `wanted` bytes are read.
    """

    def __init__(self, stream: Stream, at: int = 0, wanted: int | None = None) -> None:
        self._stream = stream
        self._wanted = None if wanted is None else at + wanted
        self._held, self._begin = b"", at  # bytes of the tar, and where they begin
        self.at, self._end = at, stream.size if stream.can_seek else None
        self._left = self._padding = 0
        self._broken: Exception | None = None  # what the stream said when it was last asked for more

    def __iter__(self) -> Iterator[Member]:
        told: dict[str, str] = {}
        begin: int | None = None
        while header := self._next_header(awaited=begin is not None):
            if header.kind == _PAX_GLOBAL:
                _refuse_shared(_records(self._told(header)))
                continue
            begin = self.at - BLOCK if begin is None else begin
            if header.kind in _PAX:
                told |= _records(self._told(header))
            elif header.kind == _LONG_NAME:
                told["path"] = _text(self._told(header))
            elif header.kind == _LONG_LINK:
                self._open(header.size)
            else:
                yield from self._file(begin, header, told)
                told, begin = {}, None

    def data(self) -> bytes:
        """What is left of the present member's bytes."""
        data = self._read(self._left)
        self._left -= len(data)
        if self._left:
            raise TarError("a member breaks off")
        return data

    def ahead(self) -> memoryview:
        """The bytes from `at` on that are held already."""
        return memoryview(self._held)[max(self.at - self._begin, 0) :]

    def more(self) -> bool:
        """Hold more of what is ahead; False at the end, or where as much is held as is read at once.

        A stream that breaks off is told of where its bytes are wanted: what is held comes first.
        """
        held = self.ahead()
        if len(held) >= _BUFFER_BYTES + _BEYOND:
            return False
        if self._end is not None and self.at > self._begin + len(self._held):  # it was passed over unread
            self._stream.seek(self.at)
        try:
            read = self._stream.read(self._size(self.at + len(held)))
        except (SourceError, OSError) as error:
            self._broken = error
            return False
        self._held, self._begin = b"".join((held, read)) if held else read, self.at
        return bool(read)

    def _size(self, at: int) -> int:
        """How much to read from byte `at` on: with the end of what is wanted, if that is near."""
        if self._wanted is None or self._wanted > at + _BUFFER_BYTES:
            return _BUFFER_BYTES
        return self._wanted - at + _BEYOND if self._wanted > at else _FURTHER

    def go_to(self, at: int) -> bool:
        """Go on with the member whose first header is at byte `at`, if that is still held."""
        if not self._begin <= at <= self._begin + len(self._held):
            return False
        self.at, self._left, self._padding = at, 0, 0
        return True

    def _read(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        parts = []
        while size and (len(self.ahead()) or self.more()):
            begin = self.at - self._begin
            parts.append(self._held[begin : begin + size])
            self.at += len(parts[-1])
            size -= len(parts[-1])
        if size and self._broken:
            raise self._broken
        return b"".join(parts)

    def _file(self, begin: int, header: _Header, told: dict[str, str]) -> Iterator[Member]:
        """The member of a header, if it is no folder; what PAX has told of it counts."""
        name = told.get("GNU.sparse.name", told.get("path", header.name))
        is_old_folder = header.kind == b"\0" and name.endswith("/")
        is_file = header.kind in _FILES and not is_old_folder
        self._open(_decimal(told["size"]) if "size" in told else header.size, has_data=is_file or header.has_data)
        if header.kind == _SPARSE:
            self._skip_sparse_maps(header)
        if is_file:
            sparse = header.kind == _SPARSE or any(key.startswith("GNU.sparse.") for key in told)
            yield Member(begin, name, self._left, sparse)
        elif header.kind not in _NO_MEMBERS and not is_old_folder:
            yield Member(begin, name, 0, sparse=False, instead="a link" if header.kind in _LINKS else "no plain file")

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
            block = self._read(BLOCK)
            if len(block) < BLOCK:
                raise TarError("a map of holes breaks off")
            more = block[504] != 0

    def _next_header(self, awaited: bool) -> _Header | None:
        """The next header, behind what is left of this member; None at the end, where none is awaited."""
        self._skip(self._left + self._padding)
        self._left = self._padding = 0
        zeros = 0
        while block := self._read(BLOCK):
            if block.count(0) < len(block):
                if zeros:
                    _check_zeros(zeros, self.at - len(block))
                return _Header(block)
            if awaited:
                raise TarError("a header tells of a member that does not come")
            zeros += 1
        if not zeros:
            raise TarError("it has no end")
        return None

    def _skip(self, size: int) -> None:
        """Pass over bytes, unread where that can be."""
        if self._end is not None:
            if self.at + size > self._end:
                raise TarError("a member breaks off")
            self.at += size
            return
        while size > 0:
            passed = len(self._read(min(size, _BUFFER_BYTES)))
            if not passed:
                raise TarError("a member breaks off")
            size -= passed


def _check_zeros(blocks: int, end: int) -> None:
    """Refuse zeros before the header at byte `end` that no end of a tar leaves.

    Where the tar before it begins is not asked: what is refused may not depend on where reading began.
    """
    if blocks == 1 or (blocks > _END_BLOCKS and end % _RECORD):
        count = "a lone block" if blocks == 1 else f"{blocks:,} blocks"
        raise TarError(f"members follow {count} of zeros, which is a hole and no end of a tar")


class _Header:
    """The 512 bytes before a member, of which the checksum says that they are such."""

    def __init__(self, block: bytes) -> None:
        if len(block) < BLOCK:
            raise TarError("a header breaks off")
        given = _number(block[148:156]) - 8 * ord(" ") + sum(block[148:156])  # the sum counts itself as blanks
        # The low half of Adler-32 is 1 + the sum of all bytes, modulo 65,521: in a fiftieth of the time.
        if (given + 1) % _ADLER != zlib.adler32(block) & 0xFFFF and given != _signed_sum(block):
            raise TarError("a header has a wrong checksum")
        self.kind, self.size = block[156:157], _number(block[124:136])
        prefix = "" if self.kind == _SPARSE else _text(block[345:500])
        self.name = f"{prefix}/{_text(block[:100])}" if prefix else _text(block[:100])
        self.more_maps = block[482] != 0

    @property
    def has_data(self) -> bool:
        """Whether `size` bytes follow: links, devices and folders may name a size, and have none."""
        return self.kind not in _WITHOUT_DATA


def _signed_sum(block: bytes) -> int:
    """What some old programs take for the sum of all bytes."""
    return sum(byte - (byte & 128) * 2 for byte in block)


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


def _refuse_shared(told: dict[str, str]) -> None:
    """What a global header says of all members must not be needed to read one: a tar may be read from any of them."""
    if any(key in ("path", "size") or key.startswith("GNU.sparse.") for key in told):
        raise TarError("a global header gives all members one name or size")
