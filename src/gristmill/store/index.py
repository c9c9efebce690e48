"""The pack index on disk: 12 bytes a document, memory-mapped, and a table of ranges. Packing itself is `order.pack`.

magic | header length | header JSON, padded to 4,096 bytes | range and shard columns | three columns a document
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.hashing import fingerprint
from gristmill.core.paths import disk_errors, sync_directory
from gristmill.store.files import Ints

if TYPE_CHECKING:
    from gristmill.store.reader import Store

MAGIC = b"GMPACK\0\1"
_ARRAYS_AT = 4096
_COLUMNS = ("full_before", "order", "piece_starts")


def layout(documents: int, ranges: int, shards: int) -> dict[str, tuple[int, str, int]]:
    """Where each array lies: name to (byte offset, dtype, count)."""
    wanted = {
        "range_bins": ("<i8", ranges + 1),
        "range_docs": ("<i8", ranges + 1),
        "range_full": ("<i8", ranges),
        "range_pieces": ("<i8", ranges),
        "shard_ranges": ("<i8", shards + 1),
        "shard_sums": ("<u8", shards),
        **dict.fromkeys(_COLUMNS, ("<u4", documents)),
    }
    at, places = _ARRAYS_AT, {}
    for name, (dtype, count) in wanted.items():
        places[name] = (at, dtype, count)
        at += np.dtype(dtype).itemsize * count
    return places | {"end": (at, "u1", 0)}


def index_path(store: Store, seq_len: int) -> Path:
    """Where a store's pack index belongs: in the store, beside foreign files, or in the store's index_dir."""
    name = f"pack-{seq_len}.gmi"
    if store.facts.index_dir:
        return Path(store.facts.index_dir) / f"{store.fingerprint[:16]}-{name}"
    if os.path.isdir(store.facts.path):
        joined = f"joined-{store.fingerprint[:16]}-" if len(store.facts.stores) > 1 else ""
        return Path(store.facts.path) / f"{joined}{name}"
    first = Path(store.files.path(0))
    return first.with_name(f"{first.name}.{name}")


class PackIndex:
    """An opened pack index of a store: bins to pieces of documents, and back."""

    def __init__(self, store: Store, path: Path, seq_len: int) -> None:
        self._store, self.path, self.seq_len = store, path, seq_len
        self.header = read_header(path)
        places = layout(*(self.header[key] for key in ("documents", "ranges", "shards")))
        if path.stat().st_size != places["end"][0]:
            raise StoreError(f"{path} was cut off: build it again with `gristmill index --force`.")
        data = np.memmap(path, np.uint8, "r")
        arrays = {name: _array(data, place) for name, place in places.items() if name != "end"}
        self._shard_ranges, self._shard_sums = arrays.pop("shard_ranges"), arrays.pop("shard_sums")
        names = ("range_bins", "range_docs", "range_full", "range_pieces", *_COLUMNS)
        self._columns = tuple(arrays[name] for name in names)
        self._range_bins, self._range_docs = arrays["range_bins"], arrays["range_docs"]

    def bins_in(self, shards: int) -> int:
        """Bins that the first `shards` shards fill; an error where the store grew past the index."""
        if shards > self.header["shards"]:
            raise ConfigError(
                f"{self.path} covers {self.header['shards']} of {shards} shards: run `gristmill index` again."
            )
        return int(self._range_bins[self._shard_ranges[shards]])

    def fingerprint_of(self, shards: int) -> str:
        """What the bins of the first `shards` shards depend on: the algorithm and their own checksums."""
        sums = [f"{value:016x}" for value in self._shard_sums[:shards].tolist()]
        return fingerprint([self.header["algorithm"], self.seq_len, sums])

    def pieces_of(self, bins: Ints) -> tuple[Ints, Ints, Ints]:
        """The pieces of many bins: which of `bins`, document, and window of the document (-1: its remainder)."""
        from gristmill.store.kernels import bin_pieces

        none = np.empty(0, dtype=np.int64)
        count = bin_pieces(*self._columns, bins, none, none, none)
        rows, documents, windows = (np.empty(count, dtype=np.int64) for _ in range(3))
        bin_pieces(*self._columns, bins, rows, documents, windows)
        return rows, documents, windows

    def pieces(self, bin: int) -> list[tuple[int, int, int]]:
        """The (document, start, end) that one bin holds, positions counted inside each document."""
        _, documents, windows = self.pieces_of(np.array([bin]))
        found = []
        for document, window in zip(documents.tolist(), windows.tolist(), strict=True):
            first, last = self._store.document_span(document)
            full = (last - first) // self.seq_len if window < 0 else window
            start = full * self.seq_len
            found.append((document, start, min(start + self.seq_len, last - first)))
        return found

    def bins_of(self, document: int) -> list[int]:
        """The bins that hold a document, by one look through its range."""
        first, last = self._store.document_span(document)
        r = int(np.searchsorted(self._range_docs, document, side="right")) - 1
        _, _, range_full, _, full_before, _, _ = self._columns
        windows = int(self._range_bins[r]) + int(full_before[document])
        bins = list(range(windows, windows + (last - first) // self.seq_len))
        if (last - first) % self.seq_len:
            bins.append(int(self._range_bins[r]) + int(range_full[r]) + self._packed_bin(r, document))
        return bins

    def _packed_bin(self, r: int, document: int) -> int:
        """Which packed bin of range r holds the document's remainder."""
        first = int(self._range_docs[r])
        _, _, range_full, range_pieces, _, order, piece_starts = self._columns
        p = np.flatnonzero(order[first : first + int(range_pieces[r])] == document - first)[0]
        packed = int(self._range_bins[r + 1] - self._range_bins[r]) - int(range_full[r])
        return int(np.searchsorted(piece_starts[first : first + packed], p, side="right")) - 1


def _array(data: Any, place: tuple[int, str, int]) -> Any:
    at, dtype, count = place
    return np.asarray(data[at : at + np.dtype(dtype).itemsize * count]).view(dtype)


def read_header(path: Path) -> dict[str, Any]:
    """The header of a pack index, its magic checked."""
    with open(path, "rb") as file:
        head = file.read(_ARRAYS_AT)
    if head[:8] != MAGIC:
        raise StoreError(f"{path} is no pack index: build it again with `gristmill index --force`.")
    size = int.from_bytes(head[8:16], "little")
    header: dict[str, Any] = json.loads(head[16 : 16 + size])
    return header


def open_pack_index(store: Store, seq_len: int) -> PackIndex:
    """The index of a store for windows of `seq_len`; never made silently."""
    path = index_path(store, seq_len)
    if not path.exists():
        raise ConfigError(
            'cut="pack" needs an index that does not exist yet: run '
            f"`gristmill index {store.facts.path} --seq-len {seq_len}`, or gm.index(store, seq_len={seq_len})."
        )
    index = PackIndex(store, path, seq_len)
    shards = index.header["shards"]
    if shards > store.num_shards or index.header["store"] != store.fingerprint_of(shards):
        raise ConfigError(f"{path} was built for another store: run `gristmill index {store.facts.path} --force`.")
    return index


@contextlib.contextmanager
def new_index(path: Path, header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Writable arrays of a new index file that becomes `path` when the block ends well."""
    places = layout(header["documents"], header["ranges"], header["shards"])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = json.dumps(header).encode()
    with disk_errors(path):
        try:
            _reserve(temporary, places["end"][0])
            data = np.memmap(temporary, np.uint8, "r+")
            yield {name: _array(data, place) for name, place in places.items() if name != "end"}
            data[: 16 + len(text)] = np.frombuffer(MAGIC + len(text).to_bytes(8, "little") + text, np.uint8)
            data.flush()
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def _reserve(path: Path, size: int) -> None:
    """A new file that the disk has room for: writing through a map where it has none ends the process by SIGBUS."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


@contextlib.contextmanager
def only_builder(path: Path) -> Iterator[None]:
    """One process at a time builds an index; the others wait here and then find it made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with disk_errors(lock), open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
