"""The bytes of a shard: token ids, Megatron-LM's document index, block checksums, hashed ids. All little-endian."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arguments import refuse
from gristmill.core.errors import ConfigError, StoreError, did_you_mean
from gristmill.core.values import shown

DTYPES = ("uint8", "uint16", "uint32", "uint64")
SUM_BLOCK = 1 << 20
MAX_SEQUENCE = 2**31 - 1
COMPRESSED_SUFFIX = ".zst"
FRAME_TOKENS = 65_536

# numpy reads more than names into a dtype: fields, shapes, quotients of times.
_DTYPE = re.compile(r"[<>|=]?[A-Za-z]+\d{0,3}")
# Of the files beside a shard's tokens.
SIDE_SUFFIXES = (".idx", ".sum", ".docs.parquet", ".ids", ".blocks")

IDX_MAGIC = b"MMIDIDX\0\0"
IDX_HEADER = 34
# Megatron has no uint32: such stores carry its code for int32, the same bytes for ids below 2^31.
IDX_CODES = {"uint8": 1, "int16": 3, "int32": 4, "uint32": 4, "int64": 5, "uint64": 5, "uint16": 8}
_IDX_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}

DOCS_SUFFIX, IDS_SUFFIX = ".docs.parquet", ".ids"
IDS_MAGIC = b"GMIDS\0\0\1"
IDS_HEADER = 16


def dtype_for(vocab_size: int) -> str:
    """uint16 up to 65,536 ids, else uint32."""
    return "uint16" if vocab_size <= 65_536 else "uint32"


def beside(path: str, suffix: str) -> str:
    """The file beside a shard's `.bin` or `.bin.zst` with another suffix: `.idx`, `.docs.parquet`, ..."""
    return os.path.splitext(path.removesuffix(COMPRESSED_SUFFIX))[0] + suffix


def is_own_shard(split: str, path: str) -> bool:
    """Whether a manifest's path is that of a shard in the store's own folder, and nothing else."""
    return re.fullmatch(rf"{re.escape(split)}/shard-[0-9]{{5,}}\.bin(\.zst)?", path) is not None


def shard_files(shard: str) -> list[str]:
    """Every file of a shard, by the name of its tokens."""
    return [shard, *(beside(shard, suffix) for suffix in SIDE_SUFFIXES)]


def check_dtype(dtype: object) -> np.dtype[Any]:
    """A token dtype by name; big-endian, floating and unknown ones are refused."""
    if not isinstance(dtype, str | type | np.dtype):
        raise refuse("dtype", f"the name of a dtype, such as {', '.join(map(repr, DTYPES))}", dtype)
    try:
        if isinstance(dtype, str) and not _DTYPE.fullmatch(dtype):
            raise TypeError(dtype)
        found = np.dtype(dtype)
    except TypeError:
        known = did_you_mean(str(dtype), DTYPES)
        raise ConfigError(f"Unknown dtype {shown(dtype)}{known}.", arguments="dtype") from None
    if found.kind not in "ui" or found.byteorder == ">":
        raise ConfigError(f"Tokens are little-endian integers, not {found}: say another dtype.", arguments="dtype")
    return found


@dataclass(frozen=True)
class IdxHeader:
    """What the 34 bytes at the head of a Megatron `.idx` say, and where its three arrays begin."""

    dtype: str
    sequences: int
    documents: int

    @property
    def pointers_at(self) -> int:
        return IDX_HEADER + 4 * self.sequences

    @property
    def documents_at(self) -> int:
        return self.pointers_at + 8 * self.sequences

    @property
    def size(self) -> int:
        return self.documents_at + 8 * (self.documents + 1)


def read_idx_header(data: bytes, name: str) -> IdxHeader:
    """Parse the head of a Megatron `.idx`, naming the file if it is none."""
    if len(data) < IDX_HEADER or data[:9] != IDX_MAGIC:
        raise StoreError(f"{name} is no Megatron index: its magic bytes are missing.")
    version, code = int.from_bytes(data[9:17], "little"), data[17]
    if version != 1 or code not in _IDX_DTYPES:
        raise StoreError(f"{name} is a Megatron index of version {version} with dtype code {code}: not known here.")
    sequences, marks = (int.from_bytes(data[at : at + 8], "little") for at in (18, 26))
    if marks < 1:
        raise StoreError(f"{name} holds no document marks, not even the first 0.")
    return IdxHeader(_IDX_DTYPES[code], sequences, marks - 1)


def write_idx(file: IO[bytes], lengths: npt.NDArray[np.int64], dtype: str) -> None:
    """A Megatron `.idx` for documents of `lengths` tokens; one over 2^31 - 1 tokens becomes several sequences."""
    pieces = np.maximum(-(-lengths // MAX_SEQUENCE), 1)
    sequences = np.full(int(pieces.sum()), MAX_SEQUENCE, dtype=np.int64)
    sequences[np.cumsum(pieces) - 1] = lengths - (pieces - 1) * MAX_SEQUENCE
    itemsize = np.dtype(dtype).itemsize
    marks = np.concatenate([[0], np.cumsum(pieces)]).astype("<i8")
    head = (1).to_bytes(8, "little") + bytes([IDX_CODES[dtype]])
    file.write(IDX_MAGIC + head + len(sequences).to_bytes(8, "little") + len(marks).to_bytes(8, "little"))
    file.write(sequences.astype("<i4").tobytes())
    file.write(((np.cumsum(sequences) - sequences) * itemsize).astype("<i8").tobytes())
    file.write(marks.tobytes())


def block_sums(data: Sequence[int] | npt.NDArray[np.generic], block: int = SUM_BLOCK) -> npt.NDArray[np.uint64]:
    """xxh3-64 of each block (1 MiB unless said otherwise) of an array's bytes."""
    view = np.ascontiguousarray(data).data.cast("B") if len(data) else memoryview(b"")
    blocks = range(0, len(view), block)
    return np.array([xxhash.xxh3_64_intdigest(view[at : at + block]) for at in blocks], dtype="<u8")


def write_ids(file: IO[bytes], hashes: npt.NDArray[np.uint64]) -> None:
    """`.ids`: magic, count, hashes in rising order (uint64 each), then each one's row in the shard (uint32 each)."""
    rows = np.argsort(hashes, kind="stable").astype("<u4")
    file.write(IDS_MAGIC + len(hashes).to_bytes(8, "little") + hashes[rows].tobytes() + rows.tobytes())
