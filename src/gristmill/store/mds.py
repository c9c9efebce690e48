"""MosaicML's MDS: a folder a split, with an index.json and shards of samples with named columns.

data/mds/train/
  index.json         {"version": 2, "shards": [{"column_names", "column_encodings", "raw_data", "samples", ...}]}
  shard.00000.mds    the offsets of `samples_out`, the shard's own part of the index as JSON, then the samples

A sample is the u32 sizes of its columns of no fixed size, and then all columns. We write one column `tokens`, as
llm-foundry names it: an array of any length (`ndarray:uint16`) or of one (`ndarray:uint16:2048`).
"""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Annotated, Any

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.values import Values, Within, check_kinds, check_there, shown
from gristmill.places.address import Address
from gristmill.store.export_job import ExportJob
from gristmill.store.files import SAMPLE_BYTES
from gristmill.store.format import check_dtype
from gristmill.store.opening import dtype_in
from gristmill.store.samples_in import INDEX, Batch, SampleFile, inside, unsigned
from gristmill.store.samples_out import SIZE_LIMIT, cut_samples, left_out, write_samples

_HASH = "xxh64"
# Columns of tokens by the names that they are known to have.
_TOKENS = ("tokens", "input_ids")
# How the lengths of arrays are coded, by the bytes that they take, and the dtypes of arrays.
_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_DTYPES = {8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 32: "uint32", 33: "int32", 64: "uint64", 65: "int64"}
_ONE_AXIS = 1 << 2


# Export.


def write_mds(job: ExportJob) -> None:
    for split, store in job.splits.items():
        encoding = f"ndarray:{store.dtype.name}" + (f":{job.seq_len}" if job.seq_len else "")
        size = job.seq_len * store.dtype.itemsize if job.seq_len else None
        config: Values = {
            "column_encodings": [encoding], "column_names": ["tokens"], "column_sizes": [size], "compression": None,
            "format": "mds", "hashes": [_HASH], "size_limit": SIZE_LIMIT, "version": 2,
        }  # fmt: skip
        samples = _Fixed(store.dtype.itemsize) if size else _Varying(store.dtype.itemsize)
        shards = list(_write_shards(job, split, config, samples))
        with job.out.write(f"{split}/{INDEX}") as file:
            file.write(json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode())


@dataclass(frozen=True)
class _Fixed:
    """Samples of one length: tokens, and nothing before them."""

    itemsize: int
    head = None

    def sizes(self, lengths: Ints) -> Ints:
        return lengths * self.itemsize


@dataclass(frozen=True)
class _Varying:
    """Samples of any length: the bytes of the column, how many axes and the length, tokens."""

    itemsize: int

    def sizes(self, lengths: Ints) -> Ints:
        return 5 + _widths(lengths) + lengths * self.itemsize

    def head(self, length: int) -> bytes:
        width = int(_widths(np.array([length]))[0])
        kind = _ONE_AXIS | width.bit_length() - 1
        return struct.pack(f"<IB{_WIDTHS[width]}", 1 + width + length * self.itemsize, kind, length)


def _widths(lengths: Ints) -> Ints:
    """The bytes that a length is written in."""
    return np.select([lengths < 1 << 8, lengths < 1 << 16], [1, 2], 4)


def _write_shards(job: ExportJob, split: str, config: Values, samples: _Fixed | _Varying) -> Iterator[Values]:
    """The shards of a split; gives what the index says of each."""
    store, before = job.splits[split], json.dumps(config, sort_keys=True).encode()
    # A shard is full when its offsets, which are counted for each sample, its own part of the index and 8 bytes are.
    files = cut_samples(job, store, lambda lengths: samples.sizes(lengths) + 4, SIZE_LIMIT - len(before) - 8)
    for number, edges in enumerate(files):
        name = f"shard.{number:05d}.mds"
        with job.out.write(f"{split}/{name}") as file:
            hashed = _Hashed(file)
            write_samples(hashed, store, edges, samples.sizes(np.diff(edges)), before=before, head=samples.head)  # type: ignore[arg-type]
        raw = {"basename": name, "bytes": hashed.size, "hashes": {_HASH: hashed.sum.hexdigest()}}
        yield {**config, "samples": len(edges) - 1, "raw_data": raw, "zip_data": None}


class _Hashed:
    """A file that is summed as it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size, self.sum = file, 0, xxhash.xxh64()

    def write(self, data: bytes | memoryview) -> int:
        self.sum.update(data)
        self.size += memoryview(data).nbytes
        return self._file.write(data)


def mds_notes(job: ExportJob) -> list[str]:
    what = f"{job.seq_len:,} tokens of the stream" if job.seq_len else "a document, EOS included"
    return [
        f"StreamingDataset(local={str(job.out.folder)!r}, split={next(iter(job.splits))!r}) gives samples whose column "
        f"tokens is an array of {job.manifest.dtype}: {what}. Each document ends with EOS ({job.manifest.eos}).",
        *left_out(job),
    ]


# Import.

_COUNT = Annotated[int, Within(0, 2**32 - 1)]
_SHARD = {
    "format": str, "version": int, "column_names": Sequence[str], "column_encodings": Sequence[str],
    "column_sizes": Sequence[Annotated[int, Within(0, 2**32 - 1)] | None], "compression": str | None,
    "samples": _COUNT,
}  # fmt: skip
_FILE = {"basename": str, "bytes": _COUNT}


def mds_files(root: Address, name: str, shards: object, dtype: str | None) -> list[SampleFile]:
    """The shards of an index, none of them opened unless the dtype of their tokens is to be found."""
    if not isinstance(shards, list):
        raise StoreError(f"{root / INDEX} has no list of shards: restore it.")
    found = [_shard(root, name, i, shard) for i, shard in enumerate(shards)]
    raw = [file for file, column in found if column.encoding == "bytes"]
    if raw and dtype is None:
        dtype = _dtype_of(raw)
    return [file.read_by(column.of_dtype(dtype, file.path).read) for file, column in found]


def _shard(root: Address, name: str, number: int, shard: object) -> tuple[SampleFile, _Column]:
    where = f"{root / INDEX}, shard {number}"
    values = check_there(shard, [*_SHARD, "raw_data"], where, StoreError)
    check_kinds(values, _SHARD, where, StoreError)
    if (values["format"], values["version"]) != ("mds", 2):
        raise ConfigError(f"{where} is of format {values['format']!r}, version {values['version']}: MDS 2 is read.")
    raw = _file_of(values["raw_data"], where)
    packed = _file_of(values["zip_data"], where) if values.get("zip_data") else None
    lies = packed or raw
    column = _column(values, where)
    path = inside(root, lies["basename"], where)
    stem = str(raw["basename"]).removesuffix(".mds")
    file = SampleFile(
        path=path, name=f"{name}/{stem}", samples=values["samples"], size=raw["bytes"],  # type: ignore[arg-type]
        packing=str(values["compression"]).partition(":")[0] if packed else None, packed=lies["bytes"],
        hashes=lies.get("hashes") or {}, read=column.bytes_of, has_config=True,
    )  # fmt: skip
    return file, column


def _file_of(values: object, where: str) -> Values:
    found = dict(check_there(values, list(_FILE), f"{where}, a file", StoreError))
    check_kinds(found, _FILE, where, StoreError)
    hashes = found.get("hashes")
    if hashes is not None and not (isinstance(hashes, dict) and all(isinstance(sum, str) for sum in hashes.values())):
        raise StoreError(f"{where}: hashes cannot be {shown(hashes)}: restore it.")
    return found


def _column(values: Any, where: str) -> _Column:
    """The column of tokens: `tokens` or `input_ids`, or the one that there is."""
    names, encodings, sizes = (list(values[f"column_{key}"]) for key in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes):
        raise StoreError(f"{where} does not have an encoding and a size for each column: restore it.")
    wanted = [name for name in _TOKENS if name in names] or (names if len(names) == 1 else [])
    if not wanted:
        raise ConfigError(f"{where} has the columns {shown(names)}, none of which is called {' or '.join(_TOKENS)}.")
    place = names.index(wanted[0])
    encoding = encodings[place]
    if encoding != "bytes" and encoding.partition(":")[0] != "ndarray":
        raise ConfigError(f"{where}: the column {wanted[0]!r} is {shown(encoding)}, which holds no token ids.")
    return _Column(encoding, place, tuple(sizes))


@dataclass(frozen=True)
class _Column:
    """How the tokens of a sample are found among its columns; a size of None is told in the sample itself."""

    encoding: str
    place: int
    sizes: tuple[int | None, ...]
    dtype: str | None = None

    def of_dtype(self, given: str | None, path: Address) -> _Column:
        """The same column with the dtype of its tokens, which bytes do not tell."""
        parts = self.encoding.split(":")
        said = parts[1] if len(parts) > 1 else None
        if said is not None and said not in _DTYPES.values():
            raise ConfigError(f"{path} holds arrays of {shown(said)}, which are no token ids.")
        if said is not None and given is not None and check_dtype(given) != np.dtype(said):
            raise ConfigError(f"{path} says that its tokens are {said}, not {given}: leave dtype= out.")
        return _Column(self.encoding, self.place, self.sizes, said or given)

    def read(self, data: bytes, edges: Ints) -> Batch:
        """The tokens of samples, and how many each has."""
        raw, lengths = self.bytes_of(data, edges)
        if self.encoding == "bytes" or self.encoding.count(":") == 2:
            return self._whole(raw, lengths)
        ends = np.cumsum(lengths)
        arrays = [self._array(raw[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        tokens = np.concatenate([*arrays, np.empty(0, np.uint8)])
        return tokens, np.array([len(array) for array in arrays], np.int64)

    def _whole(self, raw: npt.NDArray[Any], lengths: Ints) -> Batch:
        dtype = check_dtype(self.dtype)
        if (lengths % dtype.itemsize).any():
            raise ValueError(f"a sample has {lengths.max():,} bytes, no multiple of {dtype.itemsize}")
        return unsigned(raw.view(dtype)), lengths // dtype.itemsize

    def _array(self, raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array behind its dtype, if the column has none, and its shape."""
        if not len(raw):
            raise ValueError("a sample has no array")
        at = int(self.dtype is None)
        dtype = np.dtype(self.dtype or _DTYPES.get(int(raw[0]), "void"))
        if dtype.kind not in "ui" or len(raw) <= at:
            raise ValueError(f"a sample holds no array of whole numbers (its code is {raw[0]})")
        axes, width = int(raw[at]) >> 2, 1 << (int(raw[at]) & 3)
        begin = at + 1 + axes * width
        if begin > len(raw):
            raise ValueError(f"a sample has {len(raw):,} bytes, too few for the shape of its array")
        shape = np.frombuffer(raw[at + 1 : begin].tobytes(), f"<u{width}").tolist()
        values = raw[begin:].tobytes()
        if len(values) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"a sample has {len(values):,} bytes for an array of shape {shown(shape)}")
        return unsigned(np.frombuffer(values, dtype))

    def bytes_of(self, data: bytes, edges: Ints) -> Batch:
        """The bytes of the column in each sample, end to end, and how many there are in each."""
        whole = np.frombuffer(data, np.uint8)
        if len(self.sizes) == 1 and self.sizes[0] is not None:
            if (np.diff(edges) != self.sizes[0]).any():
                raise ValueError(f"a sample does not have the {self.sizes[0]:,} bytes of its column")
            return whole, np.diff(edges)
        spans = [self._span(data, start, stop) for start, stop in itertools.pairwise(edges.tolist())]
        parts = [whole[start:stop] for start, stop in spans]
        return np.concatenate([*parts, whole[:0]]), np.array([len(part) for part in parts], np.int64)

    def _span(self, data: bytes, start: int, stop: int) -> tuple[int, int]:
        """Where the column lies in the sample [start, stop)."""
        told = sum(size is None for size in self.sizes)
        at = start + 4 * told
        if at > stop:
            raise ValueError("a sample is too short for the sizes of its columns")
        found = iter(struct.unpack_from(f"<{told}I", data, start))
        sizes = [next(found) if size is None else size for size in self.sizes]
        if at + sum(sizes) != stop:
            raise ValueError(f"a sample has {stop - start:,} bytes, and its columns {at - start + sum(sizes):,}")
        begin = at + sum(sizes[: self.place])
        return begin, begin + sizes[self.place]


def _dtype_of(files: list[SampleFile]) -> str:
    """The dtype of tokens that are stored as bytes, by those of the first samples."""
    sample = b""
    for data, _ in itertools.chain.from_iterable(file.batches() for file in files):
        sample += data[:SAMPLE_BYTES].tobytes()
        if found := dtype_in(sample):
            return found
        if len(sample) >= SAMPLE_BYTES:
            break
    raise ConfigError(
        f'{files[0].path} holds tokens as bytes, which do not tell their dtype: say dtype="int64" (as llm-foundry has '
        'it), "uint16" or what it is.',
        arguments="dtype",
    )
