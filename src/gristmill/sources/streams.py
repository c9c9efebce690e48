"""A file as a stream of unpacked bytes, in bounded memory; what is damaged or mislabelled is named.

Arrow unpacks gzip and zstd, the standard library bz2 and xz, with all members and frames that a file has: 430, 1,400,
31 and 135 MB/s of text on one core here.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import functools
import lzma
import os
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import IO, Protocol, Self

import pyarrow as pa

from gristmill.core.arguments import PathLike
from gristmill.core.errors import SourceError
from gristmill.places.door import place_at
from gristmill.sources.base import InputFile, skippable
from gristmill.sources.zstd_frames import FramedStream, Unpacked, frame_starts

CHUNK_BYTES = 8 << 20

_PACKINGS = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_MAGIC = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bz2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zip": b"PK\x03\x04",
    "Parquet": b"PAR1",
    "Arrow": b"ARROW1",
}
_MAGIC_BYTES = 8
# What a file that cannot be unpacked raises, and by how much at a time what is before the damage is looked for.
_DAMAGES, _PIECES = (OSError, EOFError, lzma.LZMAError), (1 << 12, 1)
# zstd's skippable frames, one of which may come first.
_SKIPPABLE = tuple(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60))
_ANY_MAGIC = (*_MAGIC.values(), *_SKIPPABLE)


def packing_of(path: PathLike) -> str | None:
    """gzip, zstd, bz2 or xz, by the suffix; None is a file as it stands."""
    return _packing(os.fspath(path))


@functools.lru_cache(maxsize=1024)
def _packing(path: str) -> str | None:
    return _PACKINGS.get(os.path.splitext(path)[1].lower())


def unpacked_name(path: PathLike) -> str:
    """The file's name without the suffix of its compression: `a.jsonl.gz` is `a.jsonl`, `a.tgz` is `a.tar`."""
    stem, suffix = os.path.splitext(path)
    return stem + ".tar" * (suffix.lower() == ".tgz") if packing_of(path) else os.fspath(path)


class Readable(Protocol):
    """What unpacked bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


Decompressor = bz2.BZ2Decompressor | lzma.LZMADecompressor
_opened: ContextVar[list[Stream] | None] = ContextVar("opened", default=None)


@contextlib.contextmanager
def streams_opened() -> Iterator[list[Stream]]:
    """The streams that are opened in here: what they have read of their files says what so many documents took."""
    streams: list[Stream] = []
    token = _opened.set(streams)
    try:
        yield streams
    finally:
        _opened.reset(token)


class Stream:
    """Unpacked bytes from `start` on; a file that is not what its name says, or breaks off, is a SourceError.

    `stop` is about where the reader will end, so that no more is fetched. `size` is the file's own.
    """

    def __init__(self, file: InputFile, start: int = 0, stop: int | None = None) -> None:
        self._path = file.path
        self._packing = packing_of(file.spelt)
        little = self._packing is None and stop is not None and stop - start <= CHUNK_BYTES
        place = file.place
        self._file: IO[bytes] = place.open(buffered=not little)  # closed by __exit__
        self.position = start
        self._damage: Exception | None = None
        self._sources = list[Readable]()  # Arrow closes the file when the first of them goes
        try:
            self.size = self._file.seek(0, os.SEEK_END)
            file.check(self.size)
            self._check_magic(place.read(0, _MAGIC_BYTES) if (start or little) and not place.maps else None)
            self._source = self._unpacked(start)
            self._begin = start if self._packing is None else self._file.tell()
        except BaseException:
            self._file.close()
            raise
        if (streams := _opened.get()) is not None:
            streams.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def can_seek(self) -> bool:
        """Whether bytes can be passed over unread."""
        return self._packing is None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere in a file that is not packed."""
        self.position = self._file.seek(offset, whence)
        return self.position

    @property
    def packed_bytes(self) -> int:
        """Bytes of the file itself that have been read from `start` on; all of it once it is closed."""
        return self.size if self._file.closed else self._file.tell() - self._begin

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """At most `size` bytes; none at the end."""
        try:
            if self._damage:
                raise self._damage
            data = self._source.read(size)
        except _DAMAGES as error:
            if self._packing is None:
                raise
            data = b"" if self._damage else self._before_damage(size)
            self._damage = error
            if not data:
                raise skippable(
                    f"{self._path} is damaged or cut off after {self.position:,} unpacked bytes "
                    f"({str(error).rstrip('.')}).",
                    "Fetch it again",
                    " to keep what comes before",
                ) from error
        self.position += len(data)
        return data

    def _before_damage(self, size: int) -> bytes:
        """What there is of the next `size` bytes: Arrow gives none of them where it cannot give all, so the file is
        unpacked again, by little pieces from where it failed on, and once more by single bytes.
        """
        found = b""
        for piece in _PIECES if isinstance(self._source, Unpacked) else ():
            with contextlib.suppress(*_DAMAGES):
                self._sources.append(source := self._unpacked(0))
                left = self.position + len(found)
                while left:
                    if not (passed := source.read(min(left, CHUNK_BYTES))):
                        return found  # the file has become shorter meanwhile
                    left -= len(passed)
                while len(found) < size and (data := source.read(min(size - len(found), piece))):
                    found += data
        return found

    def _unpacked(self, start: int) -> Readable:
        """Something to read from, `start` unpacked bytes into the file."""
        if self._packing is None:
            self._file.seek(start)
            return self._file
        if self._packing in _DECOMPRESSORS:
            self._file.seek(0)
            return _Members(self._file, _DECOMPRESSORS[self._packing])
        starts = frame_starts(self._file) if self._packing == "zstd" else None
        if starts is not None:
            return FramedStream(self._file, starts, start)
        if start:  # it had a table when it was cut
            raise SourceError(f"{self._path} changed while it was read.", "Run the same command again.")
        self._file.seek(0)
        return Unpacked(self._file, self._packing)

    def _check_magic(self, head: bytes | None) -> None:
        """Refuse another content than the name tells, by its first bytes; None reads them from the file."""
        self._file.seek(0)
        head = self._file.read(_MAGIC_BYTES) if head is None else head
        found = None
        if head.startswith(_ANY_MAGIC):
            found = next((name for name, magic in _MAGIC.items() if head.startswith(magic)), "zstd")
        if found != self._packing:
            held = found or ("something else" if head else "nothing")
            raise SourceError(
                f"{self._path} is {self._packing or 'plain'} by its name but holds {held}.", "Give it its right suffix."
            )


# xz may look back as far as the file says: `xz -9` needs 65 MiB. (zstd refuses more than 128 MiB by itself.)
_XZ_BYTES = 512 << 20
_DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    "bz2": bz2.BZ2Decompressor,
    "xz": functools.partial(lzma.LZMADecompressor, memlimit=_XZ_BYTES),
}
_PACKED_BYTES = 1 << 18


class _Members:
    """The streams of a bz2 or xz file one after the other; what follows the last one is an error, not ignored."""

    def __init__(self, file: IO[bytes], decompressor: Callable[[], Decompressor]) -> None:
        self._file, self._new = file, decompressor
        self._member, self._packed = decompressor(), b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while self._fill():
            data = self._member.decompress(self._packed, size)
            self._packed = b""
            if data:
                return data
        return b""

    def _fill(self) -> bool:
        """Have a decompressor that has something to give; False at the end of the last stream."""
        if self._member.eof:
            # Zeros after a stream are the padding that xz allows.
            self._packed = self._member.unused_data.lstrip(b"\0") or self._file.read(_PACKED_BYTES).lstrip(b"\0")
            self._member = self._new() if self._packed else self._member
            return bool(self._packed)
        if self._member.needs_input:
            self._packed = self._file.read(_PACKED_BYTES)
            if not self._packed:
                raise EOFError("its last stream has no end")
        return True


@contextlib.contextmanager
def seekable(file: InputFile, magic: bytes = b"") -> Iterator[pa.NativeFile]:
    """A file for readers that jump about in it, memory-mapped; what is packed is unpacked to a temporary file first.

    Where all files of a format begin with `magic`, what does not is refused before all of it is unpacked.
    """
    if packing_of(file.path) is None:
        with file.place.arrow() as source:
            if file.size is not None:
                file.check(source.size())
            yield source
        return
    with tempfile.NamedTemporaryFile(prefix="gristmill-") as unpacked:
        with Stream(file) as stream:
            while chunk := stream.read():
                if stream.position == len(chunk) and not chunk.startswith(magic[: len(chunk)]):
                    said = f"{file.path} does not begin with {magic.decode()} once it is unpacked."
                    raise SourceError(said, "Give it its right suffix.")
                unpacked.write(chunk)
        unpacked.flush()
        with place_at(unpacked.name).arrow() as source:
            yield source


class Transcoded:
    """A stream in another encoding as UTF-8."""

    def __init__(self, stream: Stream, encoding: str, path: os.PathLike[str]) -> None:
        self._stream, self._path, self._encoding = stream, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """About `size` bytes of UTF-8; none at the end."""
        text = ""
        while not text and (data := self._stream.read(size)):
            text = self._decoded(data)
        return (text or self._decoded(b"", final=True)).encode("utf-8", "surrogatepass")

    def _decoded(self, data: bytes, final: bool = False) -> str:
        held = len(self._decoder.getstate()[0])
        try:
            return self._decoder.decode(data, final)
        except UnicodeError as error:  # some of Python's codecs do not say where
            at = self._stream.position - len(data) - held + getattr(error, "start", 0)
            raise skippable(
                f"{self._path} is not {self._encoding}: byte {at:,} is invalid.", "Name its encoding"
            ) from error
