"""The pack index on disk: 12 bytes a document, memory-mapped, and a table of ranges. Packing itself is `order.pack`.

magic | header length | header JSON, padded to 4,096 bytes | range and shard columns | three columns a document

Header and tables are small: their sums (xxh3-128, the header's own in its last 16 bytes) and values are checked when
the index is opened. The columns of a shard are checked by the shard's sum, and entry by entry, when one of its bins is
first asked for (2 GB/s); kernels refuse to look into a shard that has not been. Version 1 has no sums of header and
tables: its values alone are checked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.hashing import fingerprint
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.files import readable

if TYPE_CHECKING:
    from gristmill.core.arrays import Bytes
    from gristmill.store.reader import Store

MAGIC, _UNSUMMED = b"GMPACK\0\2", b"GMPACK\0\1"
_ARRAYS_AT = 4096
_SUM_AT = _ARRAYS_AT - 16
_COUNTS = ("seq_len", "documents", "ranges", "shards")
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


def index_path(store: Store, seq_len: int) -> Address:
    """Where a store's pack index belongs: in the store, beside foreign files, or in the store's index_dir."""
    name = f"pack-{seq_len}.gmi"
    if store.facts.index_dir:
        return address_of(store.facts.index_dir) / f"{store.fingerprint[:16]}-{name}"
    if store.facts.owned or place_at(store.facts.path).is_folder():
        joined = f"joined-{store.fingerprint[:16]}-" if len(store.facts.stores) > 1 else ""
        return address_of(store.facts.path) / f"{joined}{name}"
    first = address_of(store.files.path(0))
    return first.with_name(f"{first.name}.{name}")


class PackHeader(TypedDict):
    """What the head of an index says: the store it is for, its counts, and the sum of its tables, if it has one."""

    seq_len: int
    documents: int
    ranges: int
    shards: int
    algorithm: str
    store: NotRequired[str]
    tables: NotRequired[str]


class PackFile:
    """A pack index on disk, its header and tables checked; `check_shard` does so for the columns of a shard."""

    def __init__(self, path: Address) -> None:
        self.path, self.header = path, read_header(path)
        self.seq_len = int(self.header["seq_len"])
        places = layout(self.header["documents"], self.header["ranges"], self.header["shards"])
        with readable(path):
            data = place_at(path).view()
        if len(data) != places["end"][0]:  # of what came, which need not be what lies there
            raise StoreError(f"{path} was cut off: {_REMEDY}")
        tables = data[_ARRAYS_AT : places["full_before"][0]]
        if "tables" in self.header and xxhash.xxh3_128_hexdigest(tables.data) != self.header["tables"]:
            raise StoreError(f"{path} is damaged: its tables do not have the sum that its header names; {_REMEDY}")
        arrays = {name: _array(data, place) for name, place in places.items() if name != "end"}
        self._shard_ranges, self._shard_sums = arrays.pop("shard_ranges"), arrays.pop("shard_sums")
        names = ("range_bins", "range_docs", "range_full", "range_pieces", *_COLUMNS)
        self._columns = tuple(arrays[name] for name in names)
        self._range_bins, self._range_docs = arrays["range_bins"], arrays["range_docs"]
        self._checked = np.zeros(self.header["ranges"], dtype=np.bool_)
        self._check_tables()

    def _check_tables(self) -> None:
        """Refuse tables that would lead anyone outside of the file."""
        bins, docs, full, pieces = self._columns[:4]
        packed, counts = np.diff(bins) - full, np.diff(docs)
        ends = ((self._shard_ranges, len(full)), (docs, self.header["documents"]))
        rising = all(a[0] == 0 and a[-1] == end and (a[1:] >= a[:-1]).all() for a, end in ends)
        inside = (full >= 0) & (packed >= 0) & (packed <= pieces) & (pieces <= counts) & ((packed > 0) | (pieces == 0))
        if not rising or bins[0] or not inside.all():
            raise StoreError(f"{self.path} is damaged: its tables contradict each other; {_REMEDY}")

    def check_shard(self, shard: int) -> None:
        """Refuse the columns of a shard if their sum differs, or if an entry leads outside of its range."""
        ranges = slice(int(self._shard_ranges[shard]), int(self._shard_ranges[shard + 1]))
        docs = slice(int(self._range_docs[ranges.start]), int(self._range_docs[ranges.stop]))
        bins = int(self._range_bins[ranges.stop]) - int(self._range_bins[ranges.start])
        if shard_sum([column[docs] for column in self._columns[4:]], bins) != int(self._shard_sums[shard]):
            raise StoreError(f"{self.path} is damaged: the sum of its shard {shard} differs; {_REMEDY}")
        if not all(self._range_is_sound(r) for r in range(ranges.start, ranges.stop)):
            raise StoreError(f"{self.path} is damaged: an entry of its shard {shard} is out of range; {_REMEDY}")
        self._checked[ranges] = True

    def _range_is_sound(self, r: int) -> bool:
        """Whether full windows never fall, remainders are documents of the range, and every packed bin has one."""
        bins, docs, range_full, range_pieces, *columns = self._columns
        full, pieces, count = int(range_full[r]), int(range_pieces[r]), int(docs[r + 1] - docs[r])
        before, order, starts = (column[int(docs[r]) : int(docs[r + 1])] for column in columns)
        starts = starts[: int(bins[r + 1] - bins[r]) - full]
        windows = not count or (before[0] == 0 and int(before[-1]) <= full and (before[1:] >= before[:-1]).all())
        named = not pieces or int(order[:pieces].max()) < count
        filled = not len(starts) or (starts[0] == 0 and int(starts[-1]) < pieces and (starts[1:] > starts[:-1]).all())
        return bool(windows and named and filled)

    def _check_range(self, r: int) -> None:
        if not self._checked[r]:
            self.check_shard(int(np.searchsorted(self._shard_ranges, r, side="right")) - 1)


class PackIndex(PackFile):
    """The opened pack index of a store: bins to pieces of documents, and back."""

    def __init__(self, store: Store, path: Address) -> None:
        super().__init__(path)
        self._store = store

    @property
    def range_documents(self) -> int:
        """How many documents were packed together at most."""
        return int(np.diff(self._range_docs).max(initial=0))

    @property
    def bins_a_range(self) -> float:
        """How many bins a range has on average."""
        return float(self._range_bins[-1]) / max(self.header["ranges"], 1)

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
        while (count := bin_pieces(self._checked, *self._columns, bins, none, none, none)) < 0:
            self._check_range(-1 - count)
        rows, documents, windows = (np.empty(count, dtype=np.int64) for _ in range(3))
        bin_pieces(self._checked, *self._columns, bins, rows, documents, windows)
        return rows, documents, windows

    def bins_of(self, documents: Ints) -> tuple[Ints, Ints]:
        """The bins that hold documents, by one look through each of their ranges: which of them, and the bin."""
        first, last = self._store.document_spans(documents)
        found = np.searchsorted(self._range_docs, documents, side="right") - 1
        for r in np.unique(found).tolist():
            self._check_range(r)
        windows = self._range_bins[found] + self._columns[4][documents]
        counts = (last - first) // self.seq_len
        whole = np.repeat(np.arange(len(documents)), counts)
        bins = np.arange(len(whole)) - np.repeat(np.cumsum(counts) - counts, counts) + windows[whole]
        short = np.flatnonzero((last - first) % self.seq_len)
        packed = np.empty(len(short), np.int64)
        for r in np.unique(found[short]).tolist():
            here = found[short] == r
            packed[here] = self._packed_bins(r, documents[short[here]])
        return np.concatenate([whole, short]), np.concatenate([bins, packed])

    def _packed_bins(self, r: int, documents: Ints) -> Ints:
        """Which packed bins of range r hold the documents' remainders."""
        first, count = int(self._range_docs[r]), int(self._range_docs[r + 1] - self._range_docs[r])
        _, _, range_full, range_pieces, _, order, piece_starts = self._columns
        places = np.full(count, -1, np.int64)
        pieces = int(range_pieces[r])
        places[order[first : first + pieces]] = np.arange(pieces)
        found = places[documents - first]
        if len(lost := documents[found < 0]):
            raise StoreError(f"{self.path} does not place document {int(lost[0]):,}: {_REMEDY}")
        bins = int(self._range_bins[r + 1] - self._range_bins[r]) - int(range_full[r])
        packed = np.searchsorted(piece_starts[first : first + bins], found, side="right") - 1
        return int(self._range_bins[r]) + int(range_full[r]) + packed


def shard_sum(columns: Sequence[npt.NDArray[Any]], bins: int) -> int:
    """xxh3-64 of the columns of one shard and of the number of its bins."""
    state = xxhash.xxh3_64()
    for column in columns:
        state.update(np.ascontiguousarray(column).data)
    state.update(bins.to_bytes(8, "little"))
    return state.intdigest()


_REMEDY = "build it again with `gristmill index --force`."


def _array(data: Bytes, place: tuple[int, str, int]) -> npt.NDArray[Any]:
    at, dtype, count = place
    return np.asarray(data[at : at + np.dtype(dtype).itemsize * count]).view(dtype)


def read_header(path: Address) -> PackHeader:
    """The header of a pack index: its magic, its sum and the kinds of its values are checked."""
    try:
        head = place_at(path).read(0, _ARRAYS_AT)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): {_REMEDY}") from error
    if head[:8] not in (MAGIC, _UNSUMMED) or len(head) < _ARRAYS_AT:
        raise StoreError(f"{path} is no pack index, or was cut off: {_REMEDY}")
    if head[:8] == MAGIC and xxhash.xxh3_128_digest(head[:_SUM_AT]) != head[_SUM_AT:]:
        raise StoreError(f"{path} is damaged: its header does not have the sum that it ends with; {_REMEDY}")
    try:
        header = json.loads(head[16 : 16 + int.from_bytes(head[8:16], "little")])
        sound = all(type(header[key]) is int and 0 <= header[key] < 1 << 48 for key in _COUNTS) and header["seq_len"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise StoreError(f"{path} has a header that cannot be read ({error}): {_REMEDY}") from error
    if head[:8] == _UNSUMMED and "tables" in header:
        raise StoreError(f"{path} is damaged: it names sums, which its version does not have; {_REMEDY}")
    if not sound:
        raise StoreError(f"{path} has counts in its header that cannot be: {_REMEDY}")
    return cast(PackHeader, header)


def is_pack_index(path: Address) -> bool:
    """Whether a file is one of ours, by its first bytes."""
    place = place_at(path)
    return place.is_file(links=False) and place.read(0, len(MAGIC)) in (MAGIC, _UNSUMMED)


def remove_pack_index(path: Address) -> None:
    """Make room for a new index; a file that is none is not ours to delete."""
    place = place_at(path)
    if (place.exists() or place.is_link()) and not is_pack_index(path):
        raise ConfigError(f"{path} is no pack index, so it is left alone: move it away, or give another index_dir.")
    place.remove()


def open_pack_index(store: Store, seq_len: int) -> PackIndex:
    """The index of a store for windows of `seq_len`; never made silently."""
    path = index_path(store, seq_len)
    if not place_at(path).exists():
        raise ConfigError(
            'cut="pack" needs an index that does not exist yet: run '
            f"`gristmill index {store.facts.path} --seq-len {seq_len}`, or gm.index(store, seq_len={seq_len})."
        )
    index = PackIndex(store, path)
    shards, documents = index.header["shards"], index.header["documents"]
    if shards > store.num_shards or index.header.get("store") != store.fingerprint_of(shards):
        raise ConfigError(f"{path} was built for another store: run `gristmill index {store.facts.path} --force`.")
    if index.seq_len != seq_len or documents != store.documents_in(shards):
        raise StoreError(f"{path} does not fit its name or its store: {_REMEDY}")
    return index


@contextlib.contextmanager
def new_index(path: Address, header: PackHeader) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Writable arrays of a new index file that becomes `path` when the block ends well."""
    places = layout(header["documents"], header["ranges"], header["shards"])
    with place_at(path).filling(places["end"][0]) as data:
        yield {name: _array(data, place) for name, place in places.items() if name != "end"}
        tables = xxhash.xxh3_128_hexdigest(data[_ARRAYS_AT : places["full_before"][0]].data)
        data[:_ARRAYS_AT] = np.frombuffer(_head({**header, "tables": tables}), np.uint8)


def _head(header: PackHeader) -> bytes:
    """The first 4,096 bytes of an index, the last 16 of which are the sum of the others."""
    text = json.dumps(header).encode()
    head = (MAGIC + len(text).to_bytes(8, "little") + text).ljust(_SUM_AT, b"\0")
    return head + xxhash.xxh3_128_digest(head)


@contextlib.contextmanager
def only_builder(path: Address) -> Iterator[None]:
    """One process at a time builds an index; the others wait here and then find it made."""
    with place_at(path.with_name(f".{path.name}.lock")).lock(wait=True):
        place_at(path).clear_leftovers()
        yield
