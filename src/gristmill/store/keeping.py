"""What of a table's shards is kept in the cache of this machine, if its storage has one, and what that may let go."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.errors import StoreError
from gristmill.places.cache import Cache, cache_at
from gristmill.places.eviction import Part
from gristmill.places.storage import options_for
from gristmill.places.traffic import traffic
from gristmill.store.grid import Extent
from gristmill.store.held import Held

if TYPE_CHECKING:
    from gristmill.store.reader import Store
    from gristmill.store.table import ShardTable

Range = tuple[int, int]
# What came of an extent, from which byte of its file on, and whether nobody else keeps it, to what is held of it.
Unpack = Callable[[Extent, int, Bytes, bool], Held]
# Extents that follow each other and their ranges, and whether nobody else keeps them, to what came and what is held:
# what came may be memory of others once the block is left.
Fetch = Callable[[list[Extent], list[Range], bool], AbstractContextManager[list[tuple[Bytes, Held]]]]
# For positions of the row of shards, how many steps they are not needed; not a number where that is not known.
NextUse = Callable[[Ints], npt.NDArray[np.float64]]


def cache_of(path: str) -> Cache | None:
    """The cache that the storage of an address has."""
    options = options_for(path)
    return cache_at(options.cache, options.cache_limit) if options.cache else None


def fits_cache(store: Store) -> bool:
    """Whether the cache of this machine can hold all tokens of a store that is not on it."""
    if not store.files.fetched().any():
        return False
    bytes_in_all = store.num_tokens * store.dtype.itemsize
    return options_for(store.files.path(0)).cache_limit >= bytes_in_all + bytes_in_all // 8  # sets fill unevenly


def _stretches(marks: list[bool]) -> list[slice]:
    """The runs of marks that are set."""
    edges = np.flatnonzero(np.diff([False, *marks, False]))
    return [slice(first, end) for first, end in edges.reshape(-1, 2).tolist()]


class Keeping:
    """The shards of a table by their content, as the cache names them. `next_use` is told by whoever has a plan."""

    def __init__(self, table: ShardTable) -> None:
        self._table = table
        self._contents: npt.NDArray[np.bytes_] | None = None
        self.next_use: NextUse = lambda positions: np.full(len(positions), math.nan)

    def through(self, keys: list[Extent], ranges: list[Range], fetch: Fetch, unpack: Unpack) -> list[Held]:
        """Neighbours of one shard, unpacked: those that the cache has, and the rest by `fetch`, which is kept then.

        Other processes that want the same wait meanwhile. What the cache has is checked as if it had just come.
        """
        shard = keys[0].shard
        cache = cache_of(self._table.bins.path(shard))
        parts = [Part(self._known()[shard].decode(), *where) for where in ranges] if cache else []
        if cache is None or not any(map(cache.keeps, parts)):
            with fetch(keys, ranges, True) as brought:
                return [held for _, held in brought]
        found = self._held(cache, dict(zip(parts, keys, strict=True)), unpack)
        missing = [part for part in parts if part not in found]
        if missing:
            with cache.fetching(*missing):
                found |= self._held(cache, {part: keys[parts.index(part)] for part in missing}, unpack)
                for run in _stretches([part not in found for part in parts]):
                    with fetch(keys[run], ranges[run], False) as brought:
                        for part, (came, held) in zip(parts[run], brought, strict=True):
                            found[part] = self._kept(cache, part, came, held)
        return [found[part] for part in parts]

    def _kept(self, cache: Cache, part: Part, came: Bytes, held: Held) -> Held:
        """What is held of a part from now on, which is in the cache if that takes it; else a copy, if it is as it came.

        What came is a piece of all that a request brought, which would stay as long as the piece does.
        """
        kept = cache.add(part, came, self.waits)
        traffic.add(cache_misses=cache.keeps(part))
        if held.memory is not came:
            return held
        return Held(came.copy() if kept is came else kept)

    def _held(self, cache: Cache, wanted: dict[Part, Extent], unpack: Unpack) -> dict[Part, Held]:
        """What the cache has of some parts and is whole; what is not is removed."""
        found = {}
        for part, key in wanted.items():
            sums = self._table.is_summed(key.shard) or bool(self._table.compressed[key.shard])
            data = cache.get(part, checked=sums)
            try:
                if data is not None:
                    found[part] = unpack(key, part.start, data, False)
                    traffic.add(cache_hits=1)
            except StoreError:
                cache.remove(part)
        return found

    def _known(self) -> npt.NDArray[np.bytes_]:
        """32 bytes a shard, made when the first part is asked for; of foreign files this reads 64 blocks each."""
        if self._contents is None:
            sums = self._table.checksums()
            self._contents = np.array([xxhash.xxh3_128_hexdigest(each) for each in sums.tolist()], dtype="S32")
        return self._contents

    def waits(self, parts: Sequence[Part]) -> list[float]:
        """How many steps parts are not needed; not a number for those of other stores and plans."""
        known, found = self._known(), np.full(len(parts), math.nan)
        order = np.argsort(known)
        wanted = np.array([part.content for part in parts], dtype="S32")
        places = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        own = np.flatnonzero(known[places] == wanted)
        if len(own):
            middles = np.array([(parts[i].start + parts[i].end) / 2 for i in own.tolist()])
            found[own] = self.next_use(self._positions(places[own], middles))
        return found.tolist()

    def _positions(self, shards: Ints, middles: npt.NDArray[np.float64]) -> Ints:
        """About which tokens lie at these bytes of shards' files; of compressed ones as if all frames were alike."""
        table = self._table
        sizes = np.array([max(table.bins.size(int(shard)), 1) for shard in shards])
        tokens = table.starts[shards + 1] - table.starts[shards]
        inside = np.clip((middles / sizes * tokens).astype(np.int64), 0, tokens - 1)
        positions: Ints = table.starts[shards] + inside
        return positions
