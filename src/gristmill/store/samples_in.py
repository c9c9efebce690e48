"""Files of samples as an index describes them, read from one end to the other: `samples_out` has their layout.

Memory: the offsets of one file (at most 256 MiB) and a batch of its samples. What an index claims is held against the
file before memory is taken for it, and a packed file may unpack to a thousand times its size, not more.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt
import xxhash
import zstandard

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.texts import runs
from gristmill.core.values import parse_json, shown
from gristmill.places.address import Address
from gristmill.places.door import place_at

INDEX = "index.json"
_BATCH_BYTES = 1 << 25
_PART = 1 << 20
_MOST_SAMPLES = 1 << 26
_MOST_CONFIG = 1 << 20
_MOST_UNPACKED = 1000
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "zstd": lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True),
    "gz": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
}
_HASHES: dict[str, Callable[[], Any]] = {
    **{name: getattr(xxhash, name) for name in sorted(xxhash.algorithms_available)},
    **{name: getattr(hashlib, name) for name in ("sha256", "sha1", "md5", "sha512", "blake2b", "blake2s", "sha3_256")},
}
_BROKEN = (OSError, EOFError, zlib.error, zstandard.ZstdError)

# Tokens of samples end to end, as unsigned numbers, and how many each sample has.
Batch = tuple[npt.NDArray[Any], Ints]
# The tokens in the bytes of samples, whose edges are given; a ValueError says what is wrong with them.
ReadSamples = Callable[[bytes, Ints], Batch]


def unsigned(tokens: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same bits without a sign: a negative id shows as one that is far too large."""
    return tokens.view(f"<u{tokens.dtype.itemsize}")


def inside(root: Address, name: object, where: str) -> Address:
    """The file of an index below its folder; a name that leads elsewhere is refused."""
    parts = name.split("/") if isinstance(name, str) else []
    if not all(part not in ("", ".", "..") for part in parts) or not parts or any(c in str(name) for c in "\0\\:"):
        raise StoreError(f"{where} names the file {shown(name)}, which is none below {root}: restore the index.")
    return root / "/".join(parts)


@dataclass(frozen=True)
class SampleFile:
    """One file: its samples, its bytes unpacked and as it lies, what packed it, its hashes by algorithm.

    With `has_config` there is JSON between the offsets and the samples.
    """

    path: Address
    name: str
    samples: int
    size: int
    packing: str | None
    packed: int | None
    hashes: Mapping[str, str]
    read: ReadSamples
    has_config: bool = False

    def read_by(self, read: ReadSamples) -> SampleFile:
        """The same file, its samples read in another way."""
        return replace(self, read=read)

    def is_cut_evenly(self) -> bool:
        """Whether all samples have as many bytes as the first, but for the last of several, which may have fewer."""
        with _Reader(self) as reader:
            sizes = np.diff(self._edges(reader))
        least = 0 if len(sizes) > 2 else sizes[0]
        return len(sizes) > 1 and bool((sizes[:-1] == sizes[0]).all() and least <= sizes[-1] <= sizes[0])

    def batches(self) -> Iterator[Batch]:
        """All samples, some at a time; at the end the file is known to be the one that the index describes."""
        with _Reader(self) as reader:
            edges = self._edges(reader)
            self._check_config(reader.exactly(int(edges[0]) - 4 * (self.samples + 2)))
            for first, last in runs(edges, _BATCH_BYTES):
                data = reader.exactly(int(edges[last] - edges[first]))
                try:
                    batch = self.read(data, edges[first : last + 1] - edges[first])
                except ValueError as error:
                    raise StoreError(
                        f"{self.path} is damaged: {error}, among samples {first:,} to {last:,}."
                    ) from error
                yield batch
            reader.finish()

    def _edges(self, reader: _Reader) -> Ints:
        """Where samples begin and end, all inside the file and one behind the other."""
        head = 4 * (self.samples + 2)
        if self.samples >= _MOST_SAMPLES or head > self.size:
            self.refuse(f"it has {self.size:,} bytes, too few or too many for {self.samples:,} samples")
        count = int.from_bytes(reader.exactly(4), "little")
        if count != self.samples:
            self.refuse(f"it says that it holds {count:,} samples, and the index {self.samples:,}")
        edges = np.frombuffer(reader.exactly(head - 4), "<u4").astype(np.int64)
        if not head <= edges[0] <= head + _MOST_CONFIG or (np.diff(edges) < 0).any() or edges[-1] != self.size:
            self.refuse("its offsets do not lead through it")
        return edges

    def _check_config(self, text: bytes) -> None:
        """What stands between offsets and samples: JSON, or nothing."""
        if self.has_config != bool(text) or (
            text and not isinstance(parse_json(text, f"What {self.path} says of itself", StoreError), dict)
        ):
            self.refuse("its offsets do not lead to its samples")

    def refuse(self, why: str) -> NoReturn:
        """Say that the file is not what its index describes."""
        raise StoreError(f"{self.path} is damaged, or not the file of its index: {why}. Restore both.")


class _Reader:
    """The bytes of a file, unpacked, and summed as they lie."""

    def __init__(self, file: SampleFile) -> None:
        self._about = file
        known = next((name for name in file.hashes if name in _HASHES), None)
        self._expected = file.hashes[known] if known else ""
        self._sum: Any = _HASHES[known]() if known else None

    def __enter__(self) -> _Reader:
        about = self._about
        try:
            size = place_at(about.path).size()
            self._file: IO[bytes] = place_at(about.path).open()
        except FileNotFoundError as error:
            raise StoreError(f"{about.path} is missing: its index names it. Bring it back.") from error
        if about.packed not in (None, size):
            about.refuse(f"it has {size:,} bytes, and {about.packed:,} by the index")
        self._stream: Any = self
        if about.packing:
            if about.packing not in _UNPACKERS:
                raise ConfigError(f"{about.path} is packed by {about.packing!r}, and {', '.join(_UNPACKERS)} are read: "
                                  "write it anew with one of these, or without compression.")  # fmt: skip
            if about.size > _MOST_UNPACKED * size:
                about.refuse(f"{size:,} bytes are said to unpack to {about.size:,}")
            self._stream = _UNPACKERS[about.packing](self)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Bytes as they lie."""
        data = self._file.read(size)
        if self._sum is not None:
            self._sum.update(data)
        return data

    def exactly(self, size: int) -> bytes:
        """So many bytes, unpacked."""
        try:
            parts, left = [], size
            while left and (part := self._stream.read(min(left, _BATCH_BYTES))):
                parts.append(part)
                left -= len(part)
        except _BROKEN as error:
            self._about.refuse(f"it cannot be read ({error})")
        if left:
            self._about.refuse(f"it ends {left:,} bytes too early")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def finish(self) -> None:
        """There is nothing behind the last sample, and what was read is what the index has a hash of."""
        try:
            longer = self._stream.read(1)
            while self.read(_PART):
                pass
        except _BROKEN as error:
            self._about.refuse(f"it cannot be read ({error})")
        if longer:
            self._about.refuse(f"it goes on behind its {self._about.size:,} bytes")
        if self._sum is not None and self._sum.hexdigest() != self._expected:
            self._about.refuse("its hash is another")
