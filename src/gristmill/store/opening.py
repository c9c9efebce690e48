"""`gristmill.open`: a store by its folder, or other systems' files in place, recognised by their own bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gristmill.core.arguments import PathLike as PathLike
from gristmill.core.arguments import as_whole, refuse
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.values import Values, shown
from gristmill.places.address import Address
from gristmill.places.base import read_at
from gristmill.places.door import address_of, as_address, as_addresses, place_at
from gristmill.places.patterns import expand_names, refuse_missing
from gristmill.store.files import SAMPLE_BYTES, FileRow, Files, joined, make_files, readable, spread_blocks
from gristmill.store.format import COMPRESSED_SUFFIX, IDX_HEADER, IdxHeader, check_dtype, read_idx_header
from gristmill.store.manifest import MANIFEST, SPLITS, read_manifest
from gristmill.store.reader import Store, StoreFacts
from gristmill.store.sharded_bin import DTYPE, METADATA, eos_of, read_metadata, shard_paths

Opened = tuple[Files, StoreFacts]
# llm.c: magic -> (dtype, EOS). Its files begin each document with EOS.
LLM_C = {20240520: ("uint16", 50256), 20240801: ("uint32", None)}
LLM_C_HEADER = 1024
TOKENIZER = "tokenizer.json"
# If halves were tokens of their own, the largest 32 would all be first halves once in 2^32 files.
_ENOUGH = 32


def open_store(
    path: PathLike | Sequence[PathLike],
    dtype: str | None = None,
    eos: int | None = None,
    index_dir: PathLike | None = None,
) -> Store:
    """Open a store (`DIR/train`, `DIR/val`; DIR alone means its train) or foreign token files, reading no tokens.

    A folder of raw shards with a `dataset_metadata.json` opens as a store does. A list is one store. `dtype` is for
    headerless files whose bytes do not tell it, `eos` for documents of files without an `.idx`. `index_dir` is where
    pack indices live if not beside the tokens.
    """
    paths = named_paths(as_addresses("path", path, "the path of a store or of token files, or a list of paths"))
    eos = None if eos is None else as_whole("eos", eos, 0)
    dtype = None if dtype is None else check_dtype(dtype).name
    with readable(path):
        files, facts = _open_list(paths, dtype, eos) if len(paths) != 1 else _open_one(paths[0], dtype, eos)
    place = None if index_dir is None else os.fspath(as_address("index_dir", index_dir))
    return Store(files, replace(facts, index_dir=place))


def as_store(name: str, value: object) -> Store:
    """A store that is open, or what `open_store` opens."""
    if isinstance(value, Store):
        return value
    if isinstance(value, str | os.PathLike | list | tuple):
        return open_store(value)
    raise refuse(name, "an opened store, or what gm.open takes", value)


def named_paths(given: PathLike | Sequence[PathLike]) -> list[Address]:
    """The files behind a name or several, with braces, `::` and `~` spelt out; of a pattern, all must be there."""
    if not isinstance(given, str | os.PathLike):
        return [path for item in given for path in named_paths(item)]
    names = expand_names(given)
    if len(names) > 1:
        refuse_missing(
            given, [name for name in names if not any(place_at(path).exists() for path in (name, f"{name}.bin"))]
        )
    return [address_of(name) for name in names]


def _open_list(paths: list[Address], dtype: str | None, eos: int | None) -> Opened:
    if not paths:
        raise ConfigError("An empty list of files is no store.")
    dtype = dtype or next(filter(None, map(_dtype_in_bytes, paths)), None)
    parts = [_open_one(path, dtype, eos) for path in paths]
    first = parts[0][1]
    for _, other in parts[1:]:
        _check_alike(first, other)
    stores = tuple(facts.path for _, facts in parts) if first.owned else ()
    return joined([files for files, _ in parts]), replace(first, stores=stores)


def _check_alike(first: StoreFacts, other: StoreFacts) -> None:
    """Refuse to make one store of parts with other dtypes, EOS, boundaries or tokenizers."""
    for what, mine, its in (("dtype", first.dtype, other.dtype), ("EOS", first.eos, other.eos)):
        if mine != its:
            raise ConfigError(f"{other.path} has {what} {its}, {first.path} has {mine}: they cannot be one store.")
    if first.owned != other.owned or first.boundary != other.boundary:
        raise ConfigError(f"{other.path} and {first.path} mark documents in different ways: import one of them first.")
    if first.tokenizer != other.tokenizer and _tokenizer_of(first) != _tokenizer_of(other):
        raise ConfigError(f"{other.path} and {first.path} have different tokenizers: they cannot be one store.")


def _tokenizer_of(facts: StoreFacts) -> bytes | None:
    place = place_at(facts.tokenizer) if facts.tokenizer else None
    return place.read() if place and place.exists() else None


def _open_one(path: Address, dtype: str | None, eos: int | None) -> Opened:
    folder = folder_of(path)
    if folder.mark or place_at(path).is_folder():
        return _open_directory(path, folder, dtype, eos)
    if path.suffix == ".idx":
        path = path.with_suffix(".bin")
    elif not place_at(path).exists() and place_at(f"{path}.bin").exists():
        path = address_of(f"{path}.bin")
    if not place_at(path).exists():
        raise ConfigError(f"{path} does not exist.")
    if path.suffix == COMPRESSED_SUFFIX:
        raise ConfigError(f"{path} is compressed: open the folder of its store, or decompress it with `zstd -d`.")
    return _open_file(path, dtype, eos)


def _open_directory(path: Address, folder: Folder, dtype: str | None, eos: int | None) -> Opened:
    if folder.mark == METADATA:
        return _open_sharded_bin(folder.root, folder.split, dtype, eos)
    if dtype is not None or eos is not None:
        raise ConfigError(
            f"{path} is a folder: dtype= and eos= are for foreign files, a store knows its own.",
            arguments=("dtype", "eos"),
        )
    return _open_split(folder.root, folder.split)


class Folder(NamedTuple):
    """What a path means if it is a folder: a split of a root, by the file there that marks its kind, if any does."""

    root: Address
    split: str
    mark: str


def folder_of(path: Address) -> Folder:
    """Itself and its train, unless it is a split of its parent; the manifest is looked for first."""
    here = [(path.parent, path.name)] if path.name in SPLITS else []
    places = [(root, split, mark) for root, split in [*here, (path, "train")] for mark in (MANIFEST, METADATA)]
    found = (Folder(*each) for each in places if place_at(each[0] / each[2]).is_file())
    return next(found, Folder(path, "train", ""))


def is_directory(path: Address) -> bool:
    """Whether a folder is meant: where nothing can be listed, one with a manifest."""
    return folder_of(path).mark == MANIFEST or place_at(path).is_folder()


def is_sharded_bin(path: Address) -> bool:
    """Whether a folder holds raw shards, or is a split of such a folder."""
    return folder_of(path).mark == METADATA


def _open_sharded_bin(root: Address, split: str, dtype: str | None, eos: int | None) -> Opened:
    """Raw shards in place; the EOS is the folder's own, if it tells one, or that of the caller."""
    if dtype not in (None, DTYPE):
        raise ConfigError(f"The shards of {root} are {DTYPE}, not {dtype}: leave dtype= out.", arguments="dtype")
    eos = eos_of(read_metadata(root)) if eos is None else eos
    rows = [FileRow(f"{split}/{path.name}", 0, _tokens_of(path, 4), -1) for path in shard_paths(root, split)]
    boundary, tokenizer = _by_eos(eos), str(root / TOKENIZER)
    return make_files(root, rows), StoreFacts(str(root / split), DTYPE, eos, False, boundary, tokenizer=tokenizer)


def open_split(root: Address, split: str) -> Store:
    """One split of a store by its manifest."""
    return Store(*_open_split(root, split))


def _open_split(root: Address, split: str) -> Opened:
    values = read_manifest(root)
    if split not in values["splits"]:
        raise StoreError(f"{root / MANIFEST} is damaged: it has no split {split!r}.")
    shards = values["splits"][split]["shards"]
    rows = [_row(shard) for shard in shards]
    facts = StoreFacts(str(root / split), values["dtype"], values["eos"], True, "idx", tokenizer=str(root / TOKENIZER),
                       vocab_size=values["vocab_size"])  # fmt: skip
    return make_files(root, rows), facts


def _refuse_empty(path: Address) -> None:
    if place_at(path).size() == 0:
        raise StoreError(f"{path} is empty: it holds no tokens.")


def _row(shard: Values) -> FileRow:
    sums = (shard.get("idx_checksum", ""), shard.get("blocks_checksum", ""))
    counts = (shard["tokens"], shard["documents"], shard["checksum"], shard.get("compressed_bytes", 0))
    return FileRow(shard["path"], 0, *counts, *sums)


def _open_file(path: Address, dtype: str | None, eos: int | None) -> Opened:
    _refuse_empty(path)
    head = place_at(path).read(0, LLM_C_HEADER)
    if head[:6] == np.lib.format.MAGIC_PREFIX:
        return _open_npy(path, dtype, eos)
    if int.from_bytes(head[:4], "little") in LLM_C and len(head) == LLM_C_HEADER:
        return _open_llm_c(path, head, eos)
    if _has_idx(path):
        return _open_megatron(path, dtype, eos)
    return _open_bare(path, dtype, eos)


def _has_idx(path: Address) -> bool:
    return path.suffix == ".bin" and place_at(path.with_suffix(".idx")).exists()


def _dtype_in_bytes(path: Address) -> str | None:
    """The dtype of a file that only its bytes can tell it of."""
    if not place_at(path).is_file() or not place_at(path).size() or path.suffix == ".idx" or _has_idx(path):
        return None
    head = place_at(path).read(0, len(np.lib.format.MAGIC_PREFIX))
    has_header = head == np.lib.format.MAGIC_PREFIX or int.from_bytes(head[:4], "little") in LLM_C
    return None if has_header else find_dtype(path)


def _foreign(
    path: Address, header: int, tokens: int, dtype: str, eos: int | None, boundary: str | None, documents: int = -1
) -> Opened:
    files = make_files(path.parent, [FileRow(path.name, header, tokens, documents)])
    return files, StoreFacts(str(path), dtype, eos, False, boundary)


def _open_npy(path: Address, dtype: str | None, eos: int | None) -> Opened:
    shape, by_column, found, header = _npy_header(path)
    check_dtype(found.str)
    if dtype is not None and check_dtype(dtype) != found:
        raise ConfigError(f"{path} says in its header that its dtype is {found}, not {dtype}.")
    if by_column and len(shape) > 1:
        raise ConfigError(f"{path} is stored by columns: its tokens are not a stream.")
    count = math.prod(shape)
    size = place_at(path).size()
    if size != header + count * found.itemsize:
        expected = header + count * found.itemsize
        raise StoreError(f"{path} has {size:,} bytes, {expected:,} were expected: it was cut off; restore it.")
    return _foreign(path, header, count, found.name, eos, _by_eos(eos))


def _npy_header(path: Address) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether by columns, dtype, and the bytes before the first token."""
    try:
        with place_at(path).open() as file:
            version = np.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise ValueError(f"there is no version {version}")
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, found = read(file)
            if any(not isinstance(size, int) or size < 0 for size in shape):
                raise ValueError(f"shape is not valid: {shown(shape)}")
            header = file.tell()
            if version == (3, 0):
                read_at(file, 12, header - 12).decode("utf-8")
            return shape, by_column, found, header
    except OSError:
        raise
    except Exception as error:  # the header is a Python expression, and its reader raises whatever Python's own does
        raise StoreError(f"{path} begins as a .npy file, but its header is damaged: {error}.") from error


def _open_llm_c(path: Address, head: bytes, eos: int | None) -> Opened:
    magic, _, count = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    dtype, usual_eos = LLM_C[magic]
    eos = usual_eos if eos is None else eos
    boundary = "bos" if eos is not None else None
    return _foreign(path, LLM_C_HEADER, count, dtype, eos, boundary)


def _open_megatron(path: Address, dtype: str | None, eos: int | None) -> Opened:
    idx = path.with_suffix(".idx")
    header, size = read_idx_header(place_at(idx).read(0, IDX_HEADER), str(idx)), place_at(idx).size()
    if size < header.size:
        raise StoreError(f"{idx} has {size:,} bytes, {header.size:,} were expected: it was cut off.")
    found = check_dtype(dtype or header.dtype)
    if found.itemsize != np.dtype(header.dtype).itemsize:
        raise ConfigError(f"{idx} says that its tokens are {header.dtype}, not {dtype}.")
    count = _tokens_of(path, found.itemsize)
    if count * found.itemsize < _indexed_bytes(idx, header):
        raise StoreError(f"{path} is shorter than {idx.name} says: it was cut off; restore it.")
    return _foreign(path, 0, count, found.name, eos, "idx", header.documents)


def _indexed_bytes(idx: Address, header: IdxHeader) -> int:
    """Where the last sequence of a Megatron index ends in its `.bin`."""
    if not header.sequences:
        return 0
    length = int.from_bytes(place_at(idx).read(header.pointers_at - 4, 4), "little")
    pointer = int.from_bytes(place_at(idx).read(header.documents_at - 8, 8), "little")
    return pointer + length * np.dtype(header.dtype).itemsize


def _open_bare(path: Address, dtype: str | None, eos: int | None) -> Opened:
    dtype = dtype or find_dtype(path)
    if dtype is None:
        raise ConfigError(
            f'{path} has no header that tells its dtype, and its bytes do not tell it: say dtype="uint16", "int32" or '
            "what it is.",
            arguments="dtype",
        )
    found = check_dtype(dtype)
    count = _tokens_of(path, found.itemsize)
    return _foreign(path, 0, count, found.name, eos, _by_eos(eos))


def find_dtype(path: Address) -> str | None:
    """uint16, uint32 or uint64 by at most 256 KiB of a headerless file; None where its bytes do not tell.

    Ids leave the upper half of their bytes nearly empty. So items of n bytes are what the file holds, if many of their
    lower halves exceed every upper half: two neighbouring tokens that were taken for one item would not do that.
    """
    size, blocks = spread_blocks(path, SAMPLE_BYTES)
    return dtype_in(b"".join(dict(blocks).values()), size)


def dtype_in(sample: bytes, size: int = 0) -> str | None:
    """The dtype that some bytes of a file of `size` bytes tell."""
    fitting = (itemsize for itemsize in (8, 4, 2) if size % itemsize == 0 and _holds_items(sample, itemsize))
    return next((f"uint{8 * itemsize}" for itemsize in fitting), None)


def _holds_items(sample: bytes, itemsize: int) -> bool:
    count = len(sample) // itemsize
    lower, upper = np.frombuffer(sample, f"<u{itemsize // 2}", 2 * count).reshape(-1, 2).T
    return count >= _ENOUGH and int(np.count_nonzero(lower > upper.max())) >= _ENOUGH


def _tokens_of(path: Address, itemsize: int) -> int:
    size = place_at(path).size()
    count, rest = divmod(size, itemsize)
    _refuse_empty(path)
    if rest:
        raise StoreError(f"{path} has {size:,} bytes, no multiple of {itemsize}: cut off, or of another dtype.")
    return count


def _by_eos(eos: int | None) -> str | None:
    return None if eos is None else "eos"
