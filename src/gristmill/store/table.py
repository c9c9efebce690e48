"""Several stores as one row of shards: the columns that compiled loops read, and the maps behind them."""

from __future__ import annotations

import functools
import mmap
import resource
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import StoreError
from gristmill.places.memory import advise, resident
from gristmill.store.grid import make_grid
from gristmill.store.idx import check_idx
from gristmill.store.maps import MAX_COPIES, MAX_MAPS, Maps

if TYPE_CHECKING:
    from gristmill.store.extents import Extents
    from gristmill.store.frames import Frames
    from gristmill.store.reader import Store
    from gristmill.store.trust import Trust

ShardColumns = tuple[Ints, Ints, Ints, Ints]
DocumentColumns = tuple[Ints, Ints, Ints, Ints, Ints, Ints]
_LOOK_AT = 16


def offsets(counts: Ints) -> Ints:
    """Running totals that begin with 0."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def table_of(stores: Sequence[Store], max_maps: int = MAX_MAPS, extents: tuple[int, ...] = ()) -> ShardTable:
    """The table of stores. The first one keeps it: what one loader has mapped and found whole, the next need not."""
    keeper = stores[0]
    with keeper.lock:
        if keeper.table is None or not keeper.table.is_of(stores, max_maps, extents):
            keeper.table = ShardTable(stores, max_maps, extents)
        return keeper.table


class ShardTable:
    """The shards of `stores` end to end: token p of store k is bases[k] + p, document d documents.bases[k] + d.

    extents[k]: how many tokens of store k are fetched as one, where it is fetched (see `grid.py`).
    """

    def __init__(self, stores: Sequence[Store], max_maps: int = MAX_MAPS, extents: tuple[int, ...] = ()) -> None:
        self._stores, self.max_maps, self._extent_tokens = tuple(stores), max_maps, extents
        shards = np.array([len(store.files) for store in stores], dtype=np.int64)
        self.firsts = offsets(shards)
        self.starts = offsets(np.concatenate([store.files.tokens for store in stores]))
        self.headers = np.concatenate([store.files.header for store in stores])
        sizes = np.array([store.dtype.itemsize for store in stores], dtype=np.int64)
        self.itemsizes = np.repeat(sizes, shards)
        self.sizes = np.diff(self.starts) * self.itemsizes  # bytes of tokens, as they are before compression
        self.bases = self.starts[self.firsts]
        fetched = np.concatenate([store.files.fetched() for store in stores])
        path = functools.lru_cache(maxsize=1024)(self._bin_path)  # asked for with every extent that is fetched
        self.bins = Maps(len(fetched), path, self._bin_size, max_maps, random=True, fetched=fetched)
        self.compressed = np.concatenate([store.files.compressed for store in stores]) > 0
        self.framed = self.compressed | fetched
        self._none_mapped = bool(fetched.all())
        self.grid = make_grid(
            self.starts, self.itemsizes, self.firsts, fetched=fetched, compressed=self.compressed, tokens=extents
        )
        self._extents = self._make_extents() if self.framed.any() else None
        self._trust = self._make_trust()
        self._faults = 0

    def is_of(self, stores: Sequence[Store], max_maps: int, extents: tuple[int, ...]) -> bool:
        """Whether it is a table of these very stores, and cuts what is fetched as it is wanted."""
        cut = self._extent_tokens == extents or not self.bins.fetched.any()
        return cut and self.max_maps == max_maps and list(map(id, self._stores)) == list(map(id, stores))

    def _make_extents(self) -> Extents:
        from gristmill.store.extents import Extents

        return Extents(self)

    @property
    def frames(self) -> Frames | None:
        """What is held of the shards that are not mapped as they are; None where all are."""
        return None if self._extents is None else self._extents.frames

    def _make_trust(self) -> Trust | None:
        from gristmill.store.trust import Trust

        summed = np.concatenate([store.files.blocks_checksums != b"" for store in self._stores])
        summed &= ~self.compressed | self.bins.fetched  # a packed file of this machine has sums of its own
        return Trust(self, summed) if summed.any() else None

    @cached_property
    def documents(self) -> DocumentTable:
        """The documents of the shards; where only EOS marks them, asking scans the tokens."""
        return DocumentTable(self)

    def counted_documents(self) -> Ints:
        """How many documents each shard has."""
        return np.concatenate([store.shard_documents() for store in self._stores])

    def shard(self, i: int) -> tuple[Store, int]:
        """The store of a shard, and its number there."""
        k = int(np.searchsorted(self.firsts, i, side="right")) - 1
        return self._stores[k], i - int(self.firsts[k])

    def _bin_path(self, i: int) -> str:
        store, local = self.shard(i)
        return store.files.path(local)

    def _bin_size(self, i: int) -> int:
        store, local = self.shard(i)
        return store.files.size(local, store.dtype.itemsize)

    def checksums(self) -> npt.NDArray[np.bytes_]:
        """What identifies the content of each shard; of foreign files it is sampled."""
        return np.concatenate([store.checksums for store in self._stores])

    def is_summed(self, shard: int) -> bool:
        """Whether each block of a shard's tokens has a sum."""
        return self._trust is not None and self._trust.knows(shard)

    def check_fetched(self, shard: int, at: int, data: Bytes, to: Bytes | None = None) -> None:
        """Compare the bytes of a shard's tokens from byte `at` on, which have just come, with their sums.

        They are copied to memory that begins at a multiple of 64, if it is given: damaged ones may be among them.
        """
        if self._trust is not None and self._trust.knows(shard):
            self._trust.check_fetched(shard, at, data, to)
        elif to is not None:
            to[:] = data

    def shards_of(self, positions: Ints, lengths: Ints) -> Ints:
        """The shards that pieces [positions, + lengths) touch, each once."""
        first = np.searchsorted(self.starts, positions, side="right") - 1
        touched = np.zeros(len(self.headers), dtype=np.bool_)  # np.unique takes ten times as long
        touched[first] = True
        beyond = np.flatnonzero(positions + lengths > self.starts[first + 1])
        last = np.searchsorted(self.starts, (positions + lengths)[beyond] - 1, side="right") - 1
        touched[last] = True
        for i in np.flatnonzero(last - first[beyond] > 1).tolist():
            touched[first[beyond[i]] : last[i]] = True
        return np.flatnonzero(touched)

    def addresses_of(self, positions: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Where pieces lie in mapped memory, and their sizes in bytes; only the first shard of each counts.

        Pieces of framed shards are left out: their frames are asked for when they are leased.
        """
        shard = np.searchsorted(self.starts, positions, side="right") - 1
        if self._extents is not None:
            plain = ~self.framed[shard]
            shard, positions, lengths = shard[plain], positions[plain], lengths[plain]
        inside = positions - self.starts[shard]
        count = np.minimum(lengths, self.starts[shard + 1] - positions)
        address = self.bins.addresses[shard] + self.headers[shard] + inside * self.itemsizes[shard]
        return address, count * self.itemsizes[shard]

    def announce(self, shards: Ints, positions: Ints, lengths: Ints) -> None:
        """Have the disk asked for all that pieces [positions, + lengths) touch, if it must be asked.

        A page fault waits for the disk, one page after another, and by default reads megabytes around each. Token maps
        are therefore marked as random, and the kernel is told of every piece before the first is touched: the disk sees
        hundreds of requests instead of one. Telling it costs 2 microseconds a piece, more than the piece itself costs
        from memory, so a few are looked at first. That pages were missing just before is a sign too: of files of other
        users the kernel does not tell what is in memory.
        """
        if self._none_mapped:
            return
        with self.bins.leased(shards):
            few = slice(None, None, max(len(positions) // _LOOK_AT, 1))
            sample, _ = self.addresses_of(positions[few], lengths[few])
            faults, self._faults = self._faults, resource.getrusage(resource.RUSAGE_SELF).ru_majflt
            if self._faults == faults and all(map(resident, sample.tolist())):
                return
            addresses, sizes = self.addresses_of(positions, lengths)
            for address, size in zip(addresses.tolist(), sizes.tolist(), strict=True):
                advise(address, size, mmap.MADV_WILLNEED)

    def tokens(
        self, shards: Ints, positions: Ints, lengths: Ints, extents: Ints | None = None
    ) -> AbstractContextManager[ShardColumns]:
        """A shard table of the kernels for pieces [positions, + lengths), which touch `shards`: these are mapped.

        What the pieces touch for the first time is compared with its sums, where there are any.
        Where shards are compressed or not on this machine, the `extents` that the pieces touch stand in their place:
        whoever has found them before gives them, in rising order.
        """
        if self._extents is not None or self.bins.evicts:
            return self._leased(shards, positions, lengths, extents)
        self.bins.ensure(shards)  # and nothing is ever unmapped: a lease would cost more than the rest of the way
        if self._trust is not None:
            self._trust.check(positions, lengths)
        return nullcontext((self.starts, self.bins.addresses, self.headers, self.itemsizes))

    @contextmanager
    def _leased(self, shards: Ints, positions: Ints, lengths: Ints, extents: Ints | None) -> Iterator[ShardColumns]:
        with self.bins.leased(shards) as addresses:
            if self._trust is not None:
                self._trust.check(positions, lengths)
            if self._extents is None:
                yield self.starts, addresses, self.headers, self.itemsizes
            else:
                touched = self.grid.touched(positions, lengths) if extents is None else extents
                with self._extents.leased(touched) as table:
                    yield table


class DocumentTable:
    """The documents of a table's shards: shard i holds documents [starts[i], starts[i + 1]) by its `.idx`."""

    def __init__(self, table: ShardTable) -> None:
        self._table = table
        counts = table.counted_documents()
        self.starts = offsets(counts)
        self.bases = self.starts[table.firsts]
        self._pointers_at, self._marks_at = (np.zeros(len(counts), dtype=np.int64) for _ in range(2))
        most = MAX_COPIES if table.bins.fetched.any() else table.max_maps
        self.indices = Maps(len(counts), self._path, lambda i: None, most, check=self._check)

    def _path(self, shard: int) -> str:
        store, local = self._table.shard(shard)
        return store.idx_path(local)

    def shards_of(self, documents: Ints) -> Ints:
        """The shards that hold documents."""
        return np.searchsorted(self.starts, documents, side="right") - 1

    @contextmanager
    def leased(self, shards: Ints) -> Iterator[DocumentColumns]:
        """The document table of the kernels, with the indices of `shards` mapped and checked."""
        table = self._table
        with self.indices.leased(shards) as addresses:
            yield table.starts, table.itemsizes, self.starts, addresses, self._pointers_at, self._marks_at

    def _check(self, shard: int, data: Bytes) -> None:
        """Refuse an index that the kernels may not trust; note where the arrays of a good one begin."""
        store, local = self._table.shard(shard)
        name, tokens = store.idx_path(local), int(store.files.tokens[local])
        header = check_idx(data, name, tokens, store.dtype.itemsize, store.files.idx_checksum(local))
        counted = int(self.starts[shard + 1] - self.starts[shard])
        if header.documents != counted:
            raise StoreError(f"{name} marks {header.documents:,} documents, {counted:,} were expected: make it again.")
        # Own stores write one sequence a document, unless one is over 2^31 - 1 tokens; foreign ones need not.
        plain = store.owned and header.sequences == header.documents
        self._marks_at[shard] = 0 if plain else header.documents_at
        self._pointers_at[shard] = header.pointers_at
