"""What a node asks its bucket for: the uses of its ranks that find nothing near, neighbours together."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.core.hashing import mix64_array
from gristmill.places.cache import SMALLEST
from gristmill.places.eviction import SUM_BYTES, sets_for
from gristmill.simulate.uses import Uses
from gristmill.store.grid import runs

# Of a disk.
_PAGE = 4096


class Places(NamedTuple):
    """Where extents lie: bytes [starts[i], ends[i]) of shards[i]."""

    shards: Ints
    starts: Ints
    ends: Ints


class Fetches(NamedTuple):
    """Requests in the order in which ranks make them: of `ranks`, for `groups`, so many bytes of `shards`.

    starts: where these bytes lie. held: what the node's cache holds when a group is done.
    """

    ranks: Ints
    groups: Ints
    shards: Ints
    starts: Ints
    sizes: Ints
    held: Ints


def fetched(uses: Uses, places: Places, memory: int, cache: int | None) -> Fetches:
    """The requests behind uses of extents at `places`, if each rank keeps `memory` bytes and the node `cache` on disk.

    None is a cache that holds all; what one rank has fetched others find there.
    """
    missed, groups = _missed_by_ranks(uses, places.ends - places.starts, memory), int(uses.groups.max()) + 1
    asked = Uses._make(column[missed] for column in uses)
    held = np.zeros(groups, dtype=np.int64)
    if cache != 0:
        fetch, after = _missed_by_node(asked, places.ends - places.starts, cache)
        held[asked.groups] = after
        held, asked = _carried(held), Uses._make(column[fetch] for column in asked)
    return Fetches(*_requests(asked, places), held)


def _missed_by_ranks(uses: Uses, sizes: Ints, memory: int) -> Mask:
    from gristmill.simulate.cache_kernels import keep_latest  # which imports Numba

    missed, held = np.zeros(len(uses.groups), dtype=np.bool_), np.zeros(len(uses.groups), dtype=np.int64)
    for own in _slices(uses.ranks, int(uses.ranks[-1]) + 1):
        keep_latest(uses.extents[own], sizes, memory, missed[own], held[own])
    return missed


def _missed_by_node(uses: Uses, sizes: Ints, cache: int | None) -> tuple[Mask, Ints]:
    """Which uses the node's cache does not serve, and what it holds after each, in the order of their groups."""
    from gristmill.simulate.cache_kernels import keep_nearest

    order = np.argsort(uses.groups, kind="stable")
    extents, kept = uses.extents[order], sizes >= SMALLEST
    on_disk = np.where(kept, -(-(sizes + SUM_BYTES) // _PAGE) * _PAGE, np.iinfo(np.int64).max)
    limit = int(on_disk[kept].sum()) if cache is None else cache
    count = 1 if cache is None else sets_for(limit)
    sets = (mix64_array(np.arange(len(sizes), dtype=np.uint64)) % np.uint64(count)).astype(np.int64)
    missed, held = np.zeros(len(order), dtype=np.bool_), np.zeros(len(order), dtype=np.int64)
    keep_nearest(extents, _next_uses(extents), sets, on_disk, limit // count, missed, held)
    found, after = np.empty_like(missed), np.empty_like(held)
    found[order], after[order] = missed, held
    return found, after


def _next_uses(extents: Ints) -> Ints:
    """For each use the place of the next one of the same extent; beyond the last where there is none."""
    order = np.argsort(extents, kind="stable")
    nexts = np.append(order[1:], 0)
    nexts[np.append(extents[order][1:] != extents[order][:-1], True)] = len(extents)
    found = np.empty_like(nexts)
    found[order] = nexts
    return found


def _carried(held: Ints) -> Ints:
    """What is held after each group: what was after the last one that changed it."""
    places = np.maximum.accumulate(np.where(held > 0, np.arange(len(held)), 0))
    return held[places]


def _slices(ranks: Ints, count: int) -> list[slice]:
    edges = np.searchsorted(ranks, np.arange(count + 1)).tolist()
    return [slice(*pair) for pair in itertools.pairwise(edges)]


def _requests(uses: Uses, places: Places) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Rank, group, shard, start and size of requests: extents that follow each other are one."""
    shards, starts, ends = (column[uses.extents] for column in places)
    first = np.ones(len(shards), dtype=np.bool_)
    for part in _chains(uses, shards, starts, ends):
        first[part] = False
        first[[part.start + run.start for run in runs(shards[part], starts[part], ends[part])]] = True
    firsts = np.flatnonzero(first)
    lasts = np.append(firsts[1:], len(shards)) - 1
    return uses.ranks[firsts], uses.groups[firsts], shards[firsts], starts[firsts], ends[lasts] - starts[firsts]


def _chains(uses: Uses, shards: Ints, starts: Ints, ends: Ints) -> list[slice]:
    """Stretches of a group's extents each of which touches the one before it: few, in orders that shuffle."""
    touch: Mask = (
        (uses.ranks[1:] == uses.ranks[:-1]) & (uses.groups[1:] == uses.groups[:-1]) & (shards[1:] == shards[:-1])
        & (starts[:-1] <= starts[1:]) & (starts[1:] <= ends[:-1])
    )  # fmt: skip
    changes = np.flatnonzero(np.diff(np.concatenate([[False], touch, [False]]).astype(np.int8)))
    return [slice(a, b + 1) for a, b in changes.reshape(-1, 2).tolist()]
