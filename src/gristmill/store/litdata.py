"""LitData's chunks for its TokensLoader: a folder a split, with an index.json and chunks of tokens.

data/litdata/train/
  index.json         {"chunks": [{"filename", "chunk_size": items, "dim": tokens, ...}], "config": {...}, "updated_at"}
  chunk-0-0.bin      the offsets of `samples_out`, then the tokens of all items, which are read on across their edges
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.values import Values, Within, check_kinds, check_there, shown
from gristmill.places.address import Address
from gristmill.store.export_job import ExportJob
from gristmill.store.format import check_dtype
from gristmill.store.reader import Store
from gristmill.store.samples_in import INDEX, Batch, SampleFile, inside, unsigned
from gristmill.store.samples_out import (
    SIZE_LIMIT,
    Sizes,
    check_samples,
    cut_samples,
    left_out,
    sample_edges,
    write_samples,
)

_LOADER = "TokensLoader"
# What LitData numbers its dtypes by: torch has no uint32, so these are written as int32, the same bytes below 2^31.
_TENSORS = {11: "uint8", 12: "int8", 13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64",
            20: "uint16"}  # fmt: skip
_ARRAYS = dict(enumerate(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")))
_FORMATS = {"no_header_tensor": _TENSORS, "no_header_numpy": _ARRAYS}
_CODES = {"uint8": 11, "uint16": 20, "uint32": 16, "uint64": 18}
_USUAL_BLOCK = 2048


# Export.


def check_litdata(job: ExportJob) -> None:
    check_samples(job)
    bits = 8 * np.dtype(job.manifest.dtype).itemsize
    if bits >= 32 and job.manifest.vocab_size > 1 << (bits - 1):
        raise ConfigError(f"Ids of 2^{bits - 1} and more do not fit into torch's int{bits}: export to npy.")


def write_litdata(job: ExportJob) -> None:
    for split in job.splits:
        chunks = list(_write_chunks(job, split))
        config = {
            "chunk_bytes": SIZE_LIMIT, "chunk_size": None, "compression": None, "compression_batch_size": None,
            "compression_level": None, "data_format": [f"no_header_tensor:{_CODES[job.manifest.dtype]}"],
            "data_spec": '[1, {"type": null, "context": null, "children_spec": []}]', "encryption": None,
            "ipc_compression": None, "item_loader": _LOADER, "types": "tensor",
        }  # fmt: skip
        # LitData keeps what it has downloaded for as long as this stays the same: so it is the content that it tells.
        index = {"chunks": chunks, "config": config, "updated_at": job.splits[split].fingerprint}
        with job.out.write(f"{split}/{INDEX}") as file:
            file.write(json.dumps(index, sort_keys=True).encode())


def _write_chunks(job: ExportJob, split: str) -> Iterator[Values]:
    """The chunks of a split; gives what the index says of each."""
    store = job.splits[split]
    itemsize, sizes = store.dtype.itemsize, _sizes(store)
    for number, edges in enumerate(cut_samples(job, store, sizes, SIZE_LIMIT)):
        name, count, tokens = f"chunk-0-{number}.bin", len(edges) - 1, int(edges[-1] - edges[0])
        with job.out.write(f"{split}/{name}") as file:
            write_samples(file, store, edges, sizes(np.diff(edges)))
        size = 4 * (count + 2) + tokens * itemsize
        yield {"chunk_bytes": size, "chunk_size": count, "dim": tokens, "filename": name}


def _sizes(store: Store) -> Sizes:
    return lambda lengths: lengths * store.dtype.itemsize


def _dropped(store: Store, block: int) -> int:
    """The tokens at the ends of chunks that fill no block."""
    return sum(int(edges[-1] - edges[0]) % block for edges in sample_edges(store, None, _sizes(store), SIZE_LIMIT))


def litdata_notes(job: ExportJob) -> list[str]:
    block = job.seq_len or _USUAL_BLOCK
    split = next(iter(job.splits))
    notes = [
        f"StreamingDataset({f'{job.out.folder}/{split}'!r}, item_loader=TokensLoader(block_size={block})) gives "
        f"tensors of {block:,} tokens; each document ends with EOS ({job.manifest.eos}).",
        *left_out(job),
    ]
    if not job.seq_len:
        dropped, total = (sum(counts) for counts in zip(
            *((_dropped(store, block), store.num_tokens) for store in job.splits.values()), strict=True
        ))  # fmt: skip
        notes.append(
            f"Each document is an item. TokensLoader drops the end of each chunk that fills no block: {dropped:,} of "
            f"{total:,} tokens at block_size={block}. Export with seq_len, and it drops nothing at that block_size."
        )
    if job.manifest.dtype == "uint32":
        notes.append("LitData has no uint32 tensors: the index says int32, the same bytes for ids under 2^31.")
    return notes


# Import.

_COUNT = Annotated[int, Within(0, 2**32 - 1)]
_CHUNK = {"filename": str, "chunk_bytes": _COUNT, "chunk_size": _COUNT, "dim": _COUNT | None}
_CONFIG = {"data_format": Sequence[str], "compression": str | None, "compression_level": str | None,
           "item_loader": str | None}  # fmt: skip


def litdata_files(root: Address, name: str, index: Values, dtype: str | None) -> list[SampleFile]:
    """The chunks of an index, none of them opened."""
    where = str(root / INDEX)
    config = check_there(index.get("config"), ("data_format",), f"{where}: config", StoreError)
    check_kinds(config, _CONFIG, where, StoreError)
    column = _Tokens(_dtype_of(config, where, dtype))
    chunks = index["chunks"]
    if not isinstance(chunks, list):
        raise StoreError(f"{where} has no list of chunks: restore it.")
    packing = str(config.get("compression") or "").partition(":")[0] or None
    return [_chunk(root, name, i, chunk, packing, column) for i, chunk in enumerate(chunks)]


def _dtype_of(config: object, where: str, given: str | None) -> str:
    """The dtype of the tokens; chunks that hold something else, or hide it, are refused."""
    values: Values = dict(config)  # type: ignore[call-overload]
    loader, encoded = values.get("item_loader") or _LOADER, list(values["data_format"])
    kind, _, code = (encoded[0] if len(encoded) == 1 else "").partition(":")
    found = _FORMATS.get(kind, {}).get(int(code)) if code.isascii() and code.isdigit() and len(code) < 4 else None
    if loader != _LOADER or found is None:
        raise ConfigError(f"{where} describes items of {shown(encoded)} for {loader}: only tokens that are for "
                          f"{_LOADER} can be imported.")  # fmt: skip
    if values.get("encryption") or values.get("compression_level") not in (None, "chunk"):
        raise ConfigError(
            f"{where} describes chunks that are encrypted, or compressed inside: write them anew without."
        )
    if given is not None and check_dtype(given) != np.dtype(found):
        raise ConfigError(f"{where} says that its tokens are {found}, not {given}: leave dtype= out.")
    return found


@dataclass(frozen=True)
class _Tokens:
    """Items that are tokens and nothing else."""

    dtype: str

    def read(self, data: bytes, edges: Ints) -> Batch:
        """The tokens of items, and how many each has."""
        dtype = np.dtype(self.dtype)
        if (edges % dtype.itemsize).any():
            raise ValueError(f"an item does not end with a token of {dtype.itemsize} bytes")
        return unsigned(np.frombuffer(data, dtype)), np.diff(edges) // dtype.itemsize


def _chunk(root: Address, name: str, number: int, chunk: object, packing: str | None, column: _Tokens) -> SampleFile:
    where = f"{root / INDEX}, chunk {number}"
    values: Values = dict(check_there(chunk, list(_CHUNK), where, StoreError))
    check_kinds(values, _CHUNK, where, StoreError)
    tokens = values["chunk_bytes"] - 4 * (values["chunk_size"] + 2)
    if values["dim"] is not None and tokens != values["dim"] * np.dtype(column.dtype).itemsize:
        raise StoreError(f"{where}: {values['chunk_bytes']:,} bytes are not those of {values['dim']:,} tokens of "
                         f"{column.dtype}: restore it.")  # fmt: skip
    path = inside(root, values["filename"], where)
    stem = str(values["filename"]).removesuffix(".bin").removesuffix(f".{packing}")
    return SampleFile(path=path, name=f"{name}/{stem}", samples=values["chunk_size"], size=values["chunk_bytes"],
                      packing=packing, packed=None if packing else values["chunk_bytes"], hashes={},
                      read=column.read)  # fmt: skip
