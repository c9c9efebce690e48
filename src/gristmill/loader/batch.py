"""Samples to arrays: where the tokens of each row lie, and one compiled pass over them, for several steps at once.

A row is a list of *pieces*, stretches of consecutive tokens: one for chunk and window, one document for pad, several
for pack. Everything else (labels, masks, document numbers) follows from the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.loader.buffers import Buffers
from gristmill.order.permute import Ints
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.store.table import Table

Batch = dict[str, npt.NDArray[Any]]
EXTRA_KEYS = ("labels", "loss_mask", "doc_ids", "position_ids", "cu_seqlens")
NEED_DOCUMENTS = ("doc_ids", "position_ids", "cu_seqlens")
IGNORED = -100


@dataclass(frozen=True)
class Pieces:
    """Piece i is tokens [positions[i], + lengths[i]) of the table, at (rows[i], columns[i]); rows never fall.

    follows[i]: the next token in the store may be predicted from the piece's last one.
    """

    rows: Ints
    columns: Ints
    positions: Ints
    lengths: Ints
    follows: npt.NDArray[np.bool_]

    def part(self, start: int, end: int, first_row: int) -> Pieces:
        """Pieces [start, end), their rows counted from `first_row`."""
        cut = slice(start, end)
        rows = self.rows[cut] - first_row
        return Pieces(rows, self.columns[cut], self.positions[cut], self.lengths[cut], self.follows[cut])

    def filled(self, rows: int) -> Ints:
        """Tokens of each row before its padding."""
        return np.bincount(self.rows, self.lengths, minlength=rows).astype(np.int64)


@dataclass(frozen=True)
class Group:
    """Consecutive steps of one segment and this rank's samples of them, `rows` a step; only the last may be short."""

    steps: range
    segment: Segment
    samples: Ints
    rows: int


@dataclass
class Tally:
    """What a batch had to do to its rows; nothing happens in silence."""

    padded_tokens: int = 0
    truncated_tokens: int = 0
    merged_documents: int = 0

    def add(self, other: Tally) -> None:
        """Sum up."""
        self.padded_tokens += other.padded_tokens
        self.truncated_tokens += other.truncated_tokens
        self.merged_documents += other.merged_documents


class Assembler:
    """Builds the batches of a plan with the keys asked for. Safe to call from many threads."""

    def __init__(self, plan: Plan, keys: Sequence[str], max_docs: int | None, keep_buffers: int) -> None:
        self._plan, self._keys = plan, check_keys(keys)
        self._cut, self._max_docs = plan.options.cut, max_docs
        self.masked = self._cut in ("pack", "pad") or bool(plan.exclusions) or not plan.options.drop_last
        self._needs_documents = self._cut in ("pack", "pad") or any(key in NEED_DOCUMENTS for key in self._keys)
        self._table = Table([source.store for source in plan.sources], documents=self._needs_documents)  # type: ignore[misc]
        self._eos = self._one_eos()
        self._buffers = Buffers(keep_buffers)

    def _one_eos(self) -> int:
        """The token that padding and replaced documents become; needed only where there can be any."""
        found = {source.store.eos for source in self._plan.sources}
        if self.masked and (None in found or len(found) > 1):
            raise ConfigError(
                f"Padding needs one EOS for all sources, they have {found}: open foreign files with eos=."
            )
        return next(iter(found)) or 0

    def bytes_per_row(self, seq_len: int) -> int:
        """What one row of a batch takes in memory."""
        sizes = {"labels": 8, "doc_ids": 4, "position_ids": 4, "cu_seqlens": 1}
        return seq_len * (8 + self.masked + sum(sizes.get(key, 0) for key in self._keys))

    def build(self, group: Group) -> Iterator[tuple[Batch, Tally]]:
        """For each step of a group its batch, and what was padded, cut or merged in it.

        Where the tokens lie is found for all steps at once; each batch is then filled into memory of its own.
        """
        pieces = self._pieces(group)
        touched = self._table.shards_of(pieces.positions, pieces.lengths + pieces.follows)
        edges = np.searchsorted(pieces.rows, np.arange(len(group.steps) + 1) * group.rows)
        with self._table.tokens(touched) as tokens:
            for i, step in enumerate(group.steps):
                part = pieces.part(int(edges[i]), int(edges[i + 1]), i * group.rows)
                samples = group.samples[i * group.rows : (i + 1) * group.rows]
                yield self._fill(step, group, part, samples, tokens)

    def _fill(self, step: int, group: Group, pieces: Pieces, samples: Ints, tokens: Any) -> tuple[Batch, Tally]:
        rows, seq_len = group.rows, group.segment.seq_len
        batch = self._tokens(pieces, rows, seq_len, tokens)
        whole = self._cut in ("chunk", "window") and len(samples) == rows
        filled = None if whole else pieces.filled(rows)
        tally = Tally(0 if filled is None else rows * seq_len - int(filled.sum()))
        if self.masked:
            batch["loss_mask"] = self._loss_mask(pieces, rows, seq_len)
        if filled is not None:
            self._pad(batch, filled)
        if self._plan.exclusions:
            self._exclude(step, pieces, batch)
        if any(key in NEED_DOCUMENTS for key in self._keys):
            tally.merged_documents = self._documents(pieces, rows, seq_len, filled, batch)
        if self._cut == "pad":
            tally.truncated_tokens = self._truncated(samples, seq_len)
        batch["sample_ids"] = np.full((rows, 3), -1, dtype=np.int64)
        batch["sample_ids"][: len(samples)] = samples
        return batch, tally

    def _tokens(self, pieces: Pieces, rows: int, seq_len: int, tokens: Any) -> Batch:
        from gristmill.store.kernels import gather, next_tokens

        batch: Batch = {"input_ids": self._buffers.empty("input_ids", (rows, seq_len), np.int64)}
        placed = (pieces.rows, pieces.columns, pieces.positions, pieces.lengths)
        gather(*tokens, *placed, batch["input_ids"])
        if "labels" in self._keys:
            batch["labels"] = self._buffers.empty("labels", (rows, seq_len), np.int64)
            next_tokens(*tokens, *placed, pieces.follows, batch["input_ids"], batch["labels"])
        return batch

    # Where the tokens lie.

    def _pieces(self, group: Group) -> Pieces:
        segment, samples = group.segment, group.samples
        if self._cut == "pad":
            return self._whole_documents(samples, segment.seq_len)
        if self._cut == "pack":
            return self._bins(samples, segment.seq_len)
        first = samples[:, 2] * (segment.seq_len if self._cut == "chunk" else 1)
        # A store that grew since the plan was made must not lend its new tokens as labels.
        pinned = zip(self._plan.sources, segment.lanes, strict=True)
        limits = np.array([source.store.tokens_in(lane.shards) for source, lane in pinned])
        rows = np.arange(len(samples))
        follows = first + segment.seq_len < limits[samples[:, 0]]
        lengths = np.full(len(samples), segment.seq_len, dtype=np.int64)
        return Pieces(rows, np.zeros_like(rows), self._table.bases[samples[:, 0]] + first, lengths, follows)

    def _spans(self, documents: Ints) -> Ints:
        """[start, end) of documents, both counted through the whole table."""
        from gristmill.store.kernels import document_spans

        spans = np.empty((len(documents), 2), dtype=np.int64)
        with self._table.documents(self._table.shards_of_documents(documents)) as columns:
            document_spans(*columns, documents, spans)
        return spans

    def _whole_documents(self, samples: Ints, seq_len: int) -> Pieces:
        spans = self._spans(self._table.doc_bases[samples[:, 0]] + samples[:, 2])
        lengths = spans[:, 1] - spans[:, 0]
        rows = np.arange(len(samples))
        return Pieces(rows, np.zeros_like(rows), spans[:, 0], np.minimum(lengths, seq_len), lengths > seq_len)

    def _truncated(self, samples: Ints, seq_len: int) -> int:
        spans = self._spans(self._table.doc_bases[samples[:, 0]] + samples[:, 2])
        return int(np.maximum(spans[:, 1] - spans[:, 0] - seq_len, 0).sum())

    def _bins(self, samples: Ints, seq_len: int) -> Pieces:
        parts = []
        for k in np.unique(samples[:, 0]):
            here = np.flatnonzero(samples[:, 0] == k)
            index: Any = self._plan.sources[k].store.pack_index(seq_len)
            which, documents, windows = index.pieces_of(samples[here, 2])
            parts.append((here[which], self._table.doc_bases[k] + documents, windows))
        rows, documents, windows = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(parts) > 1:
            by_row = np.argsort(rows, kind="stable")
            rows, documents, windows = rows[by_row], documents[by_row], windows[by_row]
        spans = self._spans(documents)
        length = spans[:, 1] - spans[:, 0]
        start = np.where(windows < 0, length // seq_len, windows) * seq_len
        lengths = np.minimum(length - start, seq_len)
        ends = np.cumsum(lengths)
        before_row = np.repeat(
            ends[_last_of_each(rows)] - np.bincount(rows, lengths).astype(np.int64), np.bincount(rows)
        )
        return Pieces(rows, ends - lengths - before_row, spans[:, 0] + start, lengths, start + lengths < length)

    # What follows from the pieces.

    def _loss_mask(self, pieces: Pieces, rows: int, seq_len: int) -> npt.NDArray[np.bool_]:
        """True where a token may be a target; in pack and pad a piece's first token has nothing before it."""
        mask = self._buffers.empty("loss_mask", (rows, seq_len), np.bool_)
        mask.fill(True)
        if self._cut in ("pack", "pad"):
            mask[pieces.rows, pieces.columns] = False
        return mask

    def _pad(self, batch: Batch, filled: Ints) -> None:
        from gristmill.store.kernels import fill_tails

        fill_tails(batch["input_ids"], filled, self._eos)
        fill_tails(batch["loss_mask"], filled, False)
        if "labels" in batch:
            fill_tails(batch["labels"], filled, IGNORED)

    def _exclude(self, step: int, pieces: Pieces, batch: Batch) -> None:
        """Mask the tokens of excluded documents, and in mode 'replace' turn them into EOS."""
        out = self._plan.exclusions
        first, end = out.start + self._table.bases[out.source], out.end + self._table.bases[out.source]
        piece_ends = pieces.positions + pieces.lengths + pieces.follows
        for e in np.flatnonzero(out.from_step <= step):
            for p in np.flatnonzero((pieces.positions < end[e]) & (piece_ends > first[e])):
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

    def _documents(self, pieces: Pieces, rows: int, seq_len: int, filled: Ints | None, batch: Batch) -> int:
        """doc_ids, position_ids and cu_seqlens; returns how many documents cu_seqlens had no room for."""
        from gristmill.store import kernels

        ends, counts = self._ends(pieces, rows, seq_len)
        if "doc_ids" in self._keys:
            batch["doc_ids"] = self._buffers.empty("doc_ids", (rows, seq_len), np.int32)
            kernels.fill_documents(ends, counts, batch["doc_ids"])
            if filled is not None:
                kernels.fill_tails(batch["doc_ids"], filled, -1)
        if "position_ids" in self._keys:
            batch["position_ids"] = self._buffers.empty("position_ids", (rows, seq_len), np.int32)
            kernels.fill_positions(ends, counts, batch["position_ids"])
        if "cu_seqlens" not in self._keys:
            return 0
        batch["cu_seqlens"] = np.empty((rows, (self._max_docs or max(seq_len // 64, 1)) + 1), dtype=np.int32)
        return int(kernels.fill_cu_seqlens(ends, counts, seq_len, batch["cu_seqlens"]))

    def _ends(self, pieces: Pieces, rows: int, seq_len: int) -> tuple[Any, Any]:
        """ends[row, :counts[row]]: the columns at which a document ends in each row."""
        counts = np.zeros(rows, dtype=np.int64)
        if self._cut in ("pack", "pad"):
            counts = np.bincount(pieces.rows, minlength=rows)
            ends = np.empty((rows, max(int(counts.max(initial=0)), 1)), dtype=np.int64)
            ordinal = np.arange(len(pieces.rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            ends[pieces.rows, ordinal] = pieces.columns + pieces.lengths
            return ends, counts
        from gristmill.store.kernels import document_ends

        ends = np.empty((rows, seq_len), dtype=np.int64)
        placed = (pieces.rows, pieces.columns, pieces.positions, pieces.lengths)
        with self._table.documents(self._table.shards_of(pieces.positions, pieces.lengths)) as columns:
            document_ends(*columns, *placed, ends, counts)
        return ends, counts


def _last_of_each(rows: Ints) -> Ints:
    """The index of the last piece of each row."""
    return np.flatnonzero(np.append(rows[1:] != rows[:-1], True))


def check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Refuse a key that no batch has."""
    known = (*EXTRA_KEYS, "input_ids", "sample_ids")
    for key in keys:
        if key not in known:
            raise ConfigError(f"Unknown batch key {key!r}{did_you_mean(key, known)}.")
    return tuple(keys)
