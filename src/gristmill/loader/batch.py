"""Samples to arrays: one compiled pass over the pieces of a few batches, into memory that is used again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import as_names, as_whole
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.loader.buffers import Buffers
from gristmill.loader.foresight import Foresight
from gristmill.loader.pieces import Pieces, find_pieces
from gristmill.order.cut import DocumentCut
from gristmill.order.options import check_positive
from gristmill.order.permute import Ints
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.maps import MAX_MAPS
from gristmill.store.table import Table

Batch = dict[str, npt.NDArray[Any]]
# The arrays of a batch. The compiled pass fills all but the last, in this order.
DTYPES: dict[str, Any] = {
    "input_ids": np.int64,
    "labels": np.int64,
    "loss_mask": np.bool_,
    "doc_ids": np.int32,
    "position_ids": np.int32,
    "cu_seqlens": np.int32,
    "attention_mask": np.int64,
}
KEYS = (*DTYPES, "sample_ids")
_NEED_DOCUMENTS = ("doc_ids", "position_ids", "cu_seqlens")
_ABSENT = [(key, np.empty((0, 0), dtype=dtype)) for key, dtype in DTYPES.items() if key != "attention_mask"]
IGNORED = -100
# Each row may touch two shards, far under the maps a process may have.
_MAPPED_ROWS = 4096
# A row of random tokens costs a frame (128 KiB of uint16): two threads fill the cache of 64 MiB.
_DECOMPRESSED_ROWS = 256
# What batches of one stack share: calls become few, and the memory that is filled in turns stays in the cache.
_STACK_BYTES = 2 << 20


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

    def add(self, other: Tally) -> None:
        """Sum up."""
        self.tokens += other.tokens
        self.padded_tokens += other.padded_tokens
        self.truncated_tokens += other.truncated_tokens
        self.merged_documents += other.merged_documents


class Stack(NamedTuple):
    """The batches of a few steps, one upon another: arrays of (steps, rows, columns), and a tally a step."""

    steps: range
    arrays: Batch
    tallies: list[Tally]


class Assembler:
    """Builds the batches of a plan with the keys asked for. Safe to call from many threads."""

    def __init__(
        self,
        plan: Plan,
        keys: Sequence[str],
        max_docs: int | None,
        buffer_bytes: int,
        max_maps: int = MAX_MAPS,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        keys, max_docs = as_keys(keys), None if max_docs is None else as_whole("max_docs", max_docs)
        _check_padding(plan, pad_to_multiple_of)
        self._multiple, self._plan, self._max_docs = pad_to_multiple_of, plan, max_docs
        self._by_piece = issubclass(plan.cut, DocumentCut)
        masked = self._by_piece or bool(plan.exclusions) or not plan.options.drop_last
        self._keys = tuple(
            key for key in DTYPES if key == "input_ids" or key in keys or (key == "loss_mask" and masked)
        )
        self._looks_up = not self._by_piece and any(key in _NEED_DOCUMENTS for key in keys)
        stores: Any = [source.store for source in plan.sources]
        self._table = Table(stores, documents=self._by_piece or self._looks_up, max_maps=max_maps)
        self._eos = self._one_eos(masked)
        self._buffers = Buffers(buffer_bytes)
        self._foresight = Foresight(self._table)

    def _one_eos(self, padded: bool) -> int:
        """The token that padding and replaced documents become; needed only where there can be any."""
        found = {source.store.eos for source in self._plan.sources}
        if padded and (None in found or len(found) > 1):
            raise ConfigError(
                f"Padding needs one EOS for all sources, they have {found}: open foreign files with eos=."
            )
        return next(iter(found)) or 0

    def bytes_per_row(self, seq_len: int) -> int:
        """What one row of a batch takes in memory."""
        return sum(np.dtype(DTYPES[key]).itemsize * self._width(key, seq_len) for key in self._keys)

    def _width(self, key: str, seq_len: int) -> int:
        return (self._max_docs or max(seq_len // 64, 1)) + 1 if key == "cu_seqlens" else seq_len

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
        """Rows whose order and places are found at once, which decides what is mapped or decompressed at one time."""
        if not self._table.compressed.any():
            return _MAPPED_ROWS
        return max(_DECOMPRESSED_ROWS // (1 + seq_len // FRAME_TOKENS), 1)

    def build(self, group: Group) -> Iterator[tuple[Batch, Tally]]:
        """For each step of a group its batch, and what was padded, cut or merged in it."""
        for stack in self.stacks(group):
            yield from zip(unstacked(stack.arrays), stack.tallies, strict=True)

    def stacks(self, group: Group) -> Iterator[Stack]:
        """The batches of a group, up to 2 MiB of them (at least one) a stack.

        Where the tokens lie is found for all steps at once; each stack is then filled into memory of its own, which is
        used again when nothing refers to any of its batches. Sizes are powers of two, so that there are few.
        """
        from gristmill.store.kernels import assemble

        rows, pieces = group.rows, find_pieces(self._plan, self._table, group.segment, group.samples)
        # The token after a piece is its last label: without labels its page is left alone.
        reach = pieces.lengths + pieces.follows if "labels" in self._keys else pieces.lengths
        touched = self._table.shards_of(pieces.positions, reach)
        edges = _edges(pieces.rows, len(group.steps) * rows)
        kept, sample_ids = np.append(0, np.cumsum(pieces.lengths))[edges], group.sample_ids
        tallies = _tallies(group, pieces, edges[::rows], kept[::rows])
        placed, excluding = (*pieces[1:5], self._by_piece, self._eos), bool(self._plan.exclusions)
        tokens = self._table.tokens(touched, pieces.positions, reach)
        with tokens as shards, self._documents(touched) as documents:
            self._foresight.announce(pieces)
            for here in _powers_of_two(len(group.steps), self._most_steps(group)):
                steps, own = group.steps[here], edges[here.start * rows : here.stop * rows + 1]
                flat = self._empty(len(own) - 1, group.segment.seq_len, group.width(here.start))
                arrays = [flat.get(key, absent) for key, absent in _ABSENT]
                tallies[here.start].merged_documents = assemble(shards, documents, own, *placed, *arrays)
                if "attention_mask" in flat:
                    _attend(np.diff(kept[here.start * rows : here.stop * rows + 1]), flat["attention_mask"])
                if excluding:
                    self._exclude(steps, pieces.part(own), flat)
                stacked = {key: array.reshape(len(steps), rows, -1) for key, array in flat.items()}
                stacked["sample_ids"] = sample_ids[here]
                yield Stack(steps, stacked, tallies[here])

    def _most_steps(self, group: Group) -> int:
        """Steps that a stack may have; one where widths differ, or where a pass counts merged documents in one sum."""
        if "cu_seqlens" in self._keys or group.widths is not None:
            return 1
        return max(1, _STACK_BYTES // (self.bytes_per_row(group.segment.seq_len) * group.rows))

    def _empty(self, rows: int, seq_len: int, width: int) -> Batch:
        """Arrays for rows of `width` tokens; cu_seqlens keeps its columns, so that compiled models see one shape."""
        columns = {key: self._width(key, seq_len) if key == "cu_seqlens" else width for key in self._keys}
        shapes = ((key, (rows, count)) for key, count in columns.items())
        return {key: self._buffers.empty(key, shape, DTYPES[key]) for key, shape in shapes}

    @contextlib.contextmanager
    def _documents(self, shards: Ints) -> Iterator[tuple[Any, ...]]:
        """The document table, where rows are stretches of the stream in which documents must be found."""
        if self._looks_up:
            with self._table.documents(shards) as documents:
                yield documents
        else:
            yield (_NOTHING,) * 6

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
        """Take tokens [first, end) out of piece p; as labels they stand one column earlier, even past its edge."""
        row, shift = pieces.rows[p], int(pieces.columns[p] - pieces.positions[p])
        left, right = int(pieces.columns[p]), int(pieces.columns[p] + pieces.lengths[p])
        a, b = max(first + shift, left), end + shift
        batch["loss_mask"][row, a : min(b, right)] = False
        if "labels" in batch:
            batch["labels"][row, max(a - 1, left) : max(min(b, right + 1) - 1, 0)] = IGNORED
        if replace:
            batch["input_ids"][row, a : min(b, right)] = self._eos


_NOTHING = np.empty(0, dtype=np.int64)


def _edges(rows: Ints, count: int) -> Ints:
    """The first piece of each of `count` rows, and where the last one ends."""
    if len(rows) == count and rows[-1] == count - 1:
        return np.arange(count + 1)  # one piece a row, by far the most common case
    return np.searchsorted(rows, np.arange(count + 1))


def _tallies(group: Group, pieces: Pieces, edges: Ints, kept: Ints) -> list[Tally]:
    """For each step of a group its tokens, those of padding and those left out by pad.

    `edges` are the first pieces of each step, `kept` the tokens of the pieces before them.
    """
    left_out = np.append(0, np.cumsum(pieces.truncated))[edges]
    widths = np.full(len(group.steps), group.segment.seq_len) if group.widths is None else group.widths
    tokens = group.rows * widths
    padded, truncated = tokens - np.diff(kept), np.diff(left_out)
    return [Tally(*row) for row in zip(tokens.tolist(), padded.tolist(), truncated.tolist(), strict=True)]


def _attend(filled: Ints, mask: npt.NDArray[np.int64]) -> None:
    """1 for the first `filled` tokens of each row, 0 for the padding after them."""
    np.less(np.arange(mask.shape[1]), filled[:, None], out=mask)


def _powers_of_two(count: int, most: int) -> Iterator[slice]:
    """Slices that cover `count` places in turn, each as long as the greatest power of two that is left and allowed."""
    first = 0
    while first < count:
        size = 1 << min(count - first, most).bit_length() - 1
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


def as_keys(keys: str | Sequence[str]) -> tuple[str, ...]:
    """The keys asked for, one or several; one that no batch has is refused."""
    names = as_names("keys", keys, f"one of {', '.join(KEYS)}, or a list of them")
    for key in names:
        if key not in KEYS:
            raise ConfigError(f"keys {key!r} is not known{did_you_mean(key, KEYS)}.", arguments="keys")
    return names
