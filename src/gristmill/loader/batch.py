"""The batches of a plan: first where the tokens of a group of steps lie, then stack after stack of arrays."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gristmill.core.arguments import as_whole
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.loader.augment import Augmenter, first_keys, keys_below
from gristmill.loader.demand import documents_are_near, extent_tokens, reach, stores_of, window_bytes
from gristmill.loader.fill import DTYPES, IGNORED, NO_DOCUMENTS, Batch, Filler, as_keys
from gristmill.loader.locate import find_pieces
from gristmill.loader.nextuse import NextUse
from gristmill.loader.pieces import Pieces
from gristmill.order.augment import asks_in_place
from gristmill.order.cut import DocumentCut
from gristmill.order.options import check_positive
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.store.blocks import BLOCK
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.frames import CACHE_BYTES, Frames
from gristmill.store.grid import distinct, first_uses
from gristmill.store.keeping import fits_cache
from gristmill.store.maps import MAX_MAPS
from gristmill.store.table import DocumentColumns, ShardColumns, table_of

_NEED_DOCUMENTS = {"doc_ids", "position_ids", "cu_seqlens"}
# Each row may touch two shards, far under the maps a process may have.
_MAPPED_ROWS = 4096
# A row of random tokens costs a frame (128 KiB of uint16): two threads fill the cache of 64 MiB.
_FRAMED_ROWS = 256
# What batches of one stack share, so that calls become few: half of it costs 64 x 2,048 ids 5 %, twice of it 10 %.
_STACK_BYTES = 4 << 20
# Stacks that find and lease their blocks together, which in a window are mostly the same. Mapped tokens cost no lease,
# and stacks that are used again sooner stay in the processor's caches.
_LEASED_STACKS = 4


@dataclass(frozen=True)
class Group:
    """Evenly spaced steps of one segment, this rank's samples of them, `rows` a step; only the last may be short.

    `widths` are the columns of each step's batch, None where all have as many as a sequence has tokens.
    """

    steps: range
    segment: Segment
    samples: Ints
    rows: int
    widths: Ints | None = None

    def width(self, i: int) -> int:
        """The columns of the i-th step's batch."""
        return self.segment.seq_len if self.widths is None else int(self.widths[i])

    @property
    def sample_ids(self) -> Ints:
        """The samples as (steps, rows, 3), with rows of -1 where a short last batch has none."""
        missing = len(self.steps) * self.rows - len(self.samples)
        samples = np.pad(self.samples, ((0, missing), (0, 0)), constant_values=-1) if missing else self.samples
        return samples.reshape(len(self.steps), self.rows, 3)


@dataclass
class Tally:
    """How large a batch is and what was done to its rows; nothing happens in silence."""

    tokens: int = 0
    padded_tokens: int = 0
    truncated_tokens: int = 0
    merged_documents: int = 0
    displaced_tokens: int = 0

    def add(self, other: Tally) -> None:
        """Sum up."""
        self.tokens += other.tokens
        self.padded_tokens += other.padded_tokens
        self.truncated_tokens += other.truncated_tokens
        self.merged_documents += other.merged_documents
        self.displaced_tokens += other.displaced_tokens


class Stack(NamedTuple):
    """The batches of a few steps, one upon another: arrays of (steps, rows, columns), and a tally a step."""

    steps: range
    arrays: Batch
    tallies: list[Tally]


class Located(NamedTuple):
    """A group with the places of its tokens: all that must be fetched before it can be filled. Nothing is leased.

    `reach` are the tokens that are read from each piece's position on, `edges` the first piece of each row,
    `figures` the first three of each step's tally, `extents` the first and the last extent of the table's grid that
    each piece needs; None where all shards are mapped as they are.
    """

    group: Group
    shards: Ints
    pieces: Pieces
    reach: Ints
    edges: Ints
    figures: list[tuple[int, int, int]]
    extents: tuple[Ints, Ints] | None

    def pieces_of(self, places: range) -> slice:
        """The pieces of consecutive steps of the group."""
        rows = self.group.rows
        return slice(int(self.edges[places.start * rows]), int(self.edges[places.stop * rows]))


def framed_rows(plan: Plan, seq_len: int) -> int:
    """Rows of a group whose tokens are not mapped: with locality they share the blocks of a window, which is held.

    What such a group brings must fit beside the window, or it would come twice: half of that room, at 4 bytes a token.
    """
    few = max(_FRAMED_ROWS // (1 + seq_len // FRAME_TOKENS), 1)
    if plan.options.locality is None:
        return few
    return min(max(CACHE_BYTES // (8 * seq_len), few), _MAPPED_ROWS)


class Assembler:
    """Builds the batches of a plan with the keys asked for. Safe to call from many threads, and can be pickled."""

    def __init__(
        self,
        plan: Plan,
        keys: Sequence[str],
        max_docs: int | None,
        buffer_bytes: int,
        max_maps: int = MAX_MAPS,
        pad_to_multiple_of: int | None = None,
        past_caches: bool = False,
    ) -> None:
        self._made_by = plan, keys, max_docs, buffer_bytes, max_maps, pad_to_multiple_of, past_caches
        keys, max_docs = as_keys(keys), None if max_docs is None else as_whole("max_docs", max_docs)
        _check_padding(plan, pad_to_multiple_of)
        self._multiple, self._plan = pad_to_multiple_of, plan
        self._by_piece = issubclass(plan.cut, DocumentCut)
        self._in_place = asks_in_place(plan.augmentations)
        masked = self._by_piece or bool(plan.exclusions) or not plan.options.drop_last
        self._eos = self._one_eos(masked)
        self._augmenter = Augmenter(plan.augmentations, self._eos) if plan.augmentations else None
        targets = self._augmenter.targets if self._augmenter else ()
        asked = {"input_ids", *keys, *(("loss_mask",) if masked else ()), *targets}
        self._looks_up = not self._by_piece and not _NEED_DOCUMENTS.isdisjoint(keys)
        stores = stores_of(plan)
        itemsizes = [store.dtype.itemsize for store in stores]
        kept = [fits_cache(store) for store in stores]
        self._table, self._kept = table_of(stores, max_maps, extent_tokens(plan, itemsizes, kept)), any(kept)
        self._next_use = NextUse(plan, self._table.bases)
        if self._table.frames:
            self._table.frames.supply.keeping.next_use = self._next_use
            self._keep(self._table.frames, buffer_bytes, itemsizes)
        if self._by_piece or self._looks_up:
            _ = self._table.documents  # which may refuse
        wanted = [key for key in DTYPES if key in asked]
        self.filler = Filler(
            wanted,
            eos=self._eos,
            by_piece=self._by_piece,
            max_docs=max_docs,
            buffer_bytes=buffer_bytes,
            past_caches=past_caches and self._augmenter is None,
        )

    def _keep(self, frames: Frames, ahead: int, itemsizes: Sequence[int]) -> None:
        """Hold the window of the plan, what comes ahead of it, and some of what was read.

        Where the plan knows when a block was read for the last time, that is what threads may still be reading: the
        tokens of `ahead` bytes of batches, which have 8 a token, are more. Else it is as much as there is room for.
        """
        plan, table = self._plan, self._table
        window = window_bytes(plan, itemsizes, FRAME_TOKENS if table.compressed.any() else BLOCK)
        most = CACHE_BYTES + ahead + window
        in_turn = plan.options.cut == "chunk" and window > 0 and int(table.sizes[table.framed].sum()) > most
        behind = max(CACHE_BYTES // 2, ahead // 8 * max(itemsizes))
        frames.keep(most, window + behind if in_turn else most)

    def __reduce__(self) -> tuple[type[Assembler], tuple[object, ...]]:
        return Assembler, self._made_by

    def _one_eos(self, padded: bool) -> int:
        """The token that padding and replaced documents become; needed only where there can be any."""
        found = {source.store.eos for source in self._plan.sources}
        if padded and (None in found or len(found) > 1):
            raise ConfigError(
                f"Padding needs one EOS for all sources, they have {found}: open foreign files with eos=."
            )
        return next(iter(found)) or 0

    def widths(self, segment: Segment, samples: Ints) -> Ints | None:
        """For each step of whole global batches the columns that its longest row needs; None if all have seq_len.

        Samples of all ranks go in, so that every rank finds the same shape: this reads indexes, but no tokens.
        """
        if self._multiple is None:
            return None
        lengths = find_pieces(self._plan, self._table, segment, samples).lengths
        longest = np.maximum.reduceat(lengths, np.arange(0, len(samples), segment.batch_size)).clip(min=1)
        return np.asarray(np.minimum(-(-longest // self._multiple) * self._multiple, segment.seq_len))

    def group_rows(self, seq_len: int) -> int:
        """Rows whose order and places are found at once, which decides what is mapped or framed at one time."""
        return framed_rows(self._plan, seq_len) if self._table.framed.any() else _MAPPED_ROWS

    @property
    def fetched(self) -> Frames | None:
        """What is held of stores that are not on this machine; None where all are."""
        return self._table.frames if self._table.bins.fetched.any() else None

    def reached(self, step: int, mixed: Segment | None = None) -> None:
        """Readers are about to take `step`, of the plan or of a mix: what is needed next is counted from there."""
        self._next_use.step, self._next_use.mixed = step, mixed

    def touched(self, located: Located) -> tuple[Ints, Ints]:
        """The numbers of the extents that are fetched for a group, in order of first use, and the place of its step."""
        assert located.extents is not None
        numbers, pieces = first_uses(*located.extents)
        fetched = self._table.bins.fetched[self._table.grid.placed(numbers)[0]]
        steps = (np.searchsorted(located.edges, pieces, side="right") - 1) // located.group.rows
        return numbers[fetched], steps[fetched]

    def say_cost(self) -> None:
        """Say, once, what the order costs where stores are not on this machine and another order would cost less."""
        if self._kept or not self._plan.options.shuffle or (advice := self._cheaper_order()) is None:
            return
        segment, samples = self._plan.segments[0], self._plan.samples_of_steps(0, 1)
        touched, _ = self.touched(self.locate(Group(range(1), segment, samples, len(samples))))
        start, end = self._table.grid.byte_ranges(*self._table.grid.placed(touched))
        served = len(samples) * segment.seq_len * int(self._table.itemsizes.max())
        warnings.warn(
            f"{advice[0]}, and some of its stores are not on this machine: about {(end - start).sum() / served:.1f} "
            f"bytes are fetched for each byte of tokens, in a request a {advice[1]}. {advice[2]}: see docs/remote.md.",
            stacklevel=4,
        )

    def _cheaper_order(self) -> tuple[str, str, str] | None:
        """What this plan does, what takes a request for it, and what would take fewer; None where nothing would."""
        options = self._plan.options
        if not self._by_piece:
            cure = "locality=Locality(), of PlanOptions or of gm.mix, reads each block once an epoch"
            return None if options.locality else ("This plan shuffles over all of its stores", "sample", cure)
        fetched, firsts = self._table.bins.fetched, self._table.firsts.tolist()
        sizes = [store.dtype.itemsize for store in stores_of(self._plan)]
        asked = [k for k, (first, end) in enumerate(itertools.pairwise(firsts)) if fetched[first:end].any()]
        if options.cut != "pack" or all(documents_are_near(self._plan, k, sizes[k]) for k in asked):
            return None
        cure = "`gristmill index --range-documents 256` and PlanOptions(locality=Locality()) bring them near each other"
        return "This plan packs rows with documents from far apart", "document", cure

    def build(self, group: Group) -> Iterator[tuple[Batch, Tally]]:
        """For each step of a group its batch, and what was padded, cut or merged in it."""
        for stack in self.fill(self.locate(group)):
            yield from zip(unstacked(stack.arrays), stack.tallies, strict=True)

    def locate(self, group: Group) -> Located:
        """Where the tokens of a group lie, found for all its steps at once: indexes are read, but no tokens."""
        pieces = find_pieces(self._plan, self._table, group.segment, group.samples)
        read = reach(pieces, "labels" in self.filler.keys)  # without labels the page after a piece is left alone
        shards, edges = self._table.shards_of(pieces.positions, read), pieces.edges(len(group.steps) * group.rows)
        figures = _figures(group, pieces, edges[:: group.rows])
        extents = None if self._table.frames is None else self._table.grid.needed(pieces.positions, read)
        return Located(group, shards, pieces, read, edges, figures, extents)

    def fill(self, located: Located, places: range | None = None) -> Iterator[Stack]:
        """The batches of a group, or of steps that follow each other in it, in stacks of up to 4 MiB (or one batch).

        Memory is used again when nothing refers to any of its batches; sizes are powers of two, so that there are few.
        Nothing is leased while a caller has a stack in hand.
        """
        places = range(len(located.group.steps)) if places is None else places
        most, pieces = self._most_steps(located.group), located.pieces_of(places)
        self._table.announce(located.shards, located.pieces.positions[pieces], located.reach[pieces])
        some = most * (_LEASED_STACKS if self._table.framed.any() else 1)
        for first in range(places.start, places.stop, some):
            yield from self._stacks(located, range(first, min(first + some, places.stop)), most)

    def _stacks(self, located: Located, some: range, most: int) -> list[Stack]:
        """Some steps of a group, counted inside of it, in stacks that are filled under one lease."""
        touched, placed, needed = located.shards, located.pieces_of(some), located.extents
        extents = None if needed is None else distinct(needed[0][placed], needed[1][placed])
        leased = self._table.tokens(touched, located.pieces.positions[placed], located.reach[placed], extents)
        with leased as shards, self._documents(touched) as documents:
            return [self._stack(located, here, shards, documents) for here in _powers_of_two(some, most)]

    def _stack(self, located: Located, here: slice, shards: ShardColumns, documents: DocumentColumns) -> Stack:
        group, _, pieces, _, edges, figures, _ = located
        rows, seq_len, sample_ids = group.rows, group.segment.seq_len, group.sample_ids[here]
        steps, own = group.steps[here], edges[here.start * rows : here.stop * rows + 1]
        flat, merged = self.filler.fill(shards, documents, pieces, own, seq_len, group.width(here.start))
        tallies = [Tally(*row) for row in figures[here]]
        _count("merged_documents", tallies, merged)
        if self._augmenter:
            lost = self._augment(self._augmenter, flat, pieces, own, sample_ids.reshape(-1, 3))
            _count("displaced_tokens", tallies, lost)
        if self._plan.exclusions:
            self._exclude(steps, pieces.part(own), flat)
        stacked = {key: array.reshape(len(steps), rows, -1) for key, array in flat.items()}
        return Stack(steps, stacked | {"sample_ids": sample_ids}, tallies)

    def _augment(self, augmenter: Augmenter, batch: Batch, pieces: Pieces, edges: Ints, sample_ids: Ints) -> Ints:
        """Do to rows what the plan asks for, by the keys of their samples; the tokens that each row lost by it."""
        first = first_keys(self._plan.seed, self._plan.names)[sample_ids[:, 0]]
        keys = keys_below(first, sample_ids[:, 1], sample_ids[:, 2])
        return augmenter.apply(batch, pieces, edges, sample_ids, keys)

    def _most_steps(self, group: Group) -> int:
        """Steps that a stack may have, a power of two so that leases end where stacks do; one where widths differ."""
        if group.widths is not None:
            return 1
        fitting = _STACK_BYTES // (self.filler.bytes_per_row(group.segment.seq_len) * group.rows)
        return 1 << max(1, int(fitting)).bit_length() - 1

    def _documents(self, shards: Ints) -> AbstractContextManager[DocumentColumns]:
        """The document table, where rows are stretches of the stream in which documents must be found."""
        return self._table.documents.leased(shards) if self._looks_up else nullcontext(NO_DOCUMENTS)

    def _exclude(self, steps: range, pieces: Pieces, batch: Batch) -> None:
        """Mask the tokens of excluded documents, and in mode 'replace' turn them into EOS.

        Excluded documents lie in rising order and apart, so those that a piece meets are found by bisection.
        """
        out = self._plan.exclusions
        first, end = out.start + self._table.bases[out.source], out.end + self._table.bases[out.source]
        low = np.searchsorted(end, pieces.positions, side="right")
        high = np.searchsorted(first, pieces.positions + pieces.lengths + pieces.follows, side="left")
        rows = len(batch["input_ids"]) // len(steps)
        for p in np.flatnonzero(high > low):
            for e in range(low[p], high[p]):
                if out.from_step[e] <= steps[pieces.rows[p] // rows]:
                    self._mask_piece(batch, pieces, int(p), int(first[e]), int(end[e]), bool(out.replace[e]))

    def _mask_piece(self, batch: Batch, pieces: Pieces, p: int, first: int, end: int, replace: bool) -> None:
        """Take tokens [first, end) out of piece p; as labels they stand one column earlier, even past its edge.

        Where tokens are asked for in place (Mask), labels stand where they do.
        """
        row, shift = pieces.rows[p], int(pieces.columns[p] - pieces.positions[p])
        left, right = int(pieces.columns[p]), int(pieces.columns[p] + pieces.lengths[p])
        a, b = max(first + shift, left), end + shift
        batch["loss_mask"][row, a : min(b, right)] = False
        if "labels" in batch:
            labels = (
                slice(a, min(b, right)) if self._in_place else slice(max(a - 1, left), max(min(b, right + 1) - 1, 0))
            )
            batch["labels"][row, labels] = IGNORED
        if replace:
            batch["input_ids"][row, a : min(b, right)] = self._eos


def _figures(group: Group, pieces: Pieces, edges: Ints) -> list[tuple[int, int, int]]:
    """For each step of a group, whose pieces begin at `edges`, its tokens, those of padding and those left out."""
    kept, truncated = (np.diff(np.append(0, np.cumsum(c))[edges]) for c in (pieces.lengths, pieces.truncated))
    widths = np.full(len(group.steps), group.segment.seq_len) if group.widths is None else group.widths
    tokens = group.rows * widths
    return list(zip(tokens.tolist(), (tokens - kept).tolist(), truncated.tolist(), strict=True))


def _count(name: str, tallies: list[Tally], by_row: Ints) -> None:
    """Note under `name` what was counted by rows, if anything was, for each step."""
    if np.count_nonzero(by_row):
        for tally, count in zip(tallies, by_row.reshape(len(tallies), -1).sum(axis=1).tolist(), strict=True):
            setattr(tally, name, count)


def _powers_of_two(places: range, most: int) -> Iterator[slice]:
    """Slices that cover places in turn, each as long as the greatest power of two that is left and allowed."""
    first = places.start
    while first < places.stop:
        size = 1 << min(places.stop - first, most).bit_length() - 1
        yield slice(first, first + size)
        first += size


def unstacked(arrays: Batch) -> Iterator[Batch]:
    """The batches of a stack, one a step."""
    return (dict(zip(arrays, batch, strict=True)) for batch in zip(*arrays.values(), strict=True))


def _check_padding(plan: Plan, multiple: int | None) -> None:
    check_positive(pad_to_multiple_of=multiple)
    if multiple is not None and not plan.cut.lone:
        raise ConfigError(
            f'pad_to_multiple_of is for cut="pad": the rows of cut="{plan.cut.name}" are full.',
            arguments="pad_to_multiple_of",
        )
