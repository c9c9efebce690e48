"""What a step of a plan holds, by the definition in docs/order.md and docs/loader.md: in plain Python, token by token.

Nothing of the order or the loader is used but the keyed permutation (pinned by golden values) and the hash of keys.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute

UNITS_PER_BLOCK = 64
IGNORED = -100
Piece = tuple[int, int]  # tokens [start, end) of a source's stream


@dataclass
class Corpus:
    """A source: the shards' documents, each with its EOS."""

    name: str
    shards: list[list[list[int]]]
    eos: int

    def __post_init__(self) -> None:
        self.documents = [document for shard in self.shards for document in shard]
        self.stream = [token for document in self.documents for token in document]
        ends = list(itertools.accumulate(len(document) for document in self.documents))
        self.spans = list(zip([0, *ends], ends, strict=False))

    def samples(self, cut: str, seq_len: int) -> list[list[Piece]]:
        """Every sample of an epoch, as the pieces that its row holds."""
        if cut == "chunk":
            return [[(at, at + seq_len)] for at in range(0, len(self.stream) - seq_len + 1, seq_len)]
        if cut == "window":
            return [[(at, at + seq_len)] for at in range(len(self.stream) - seq_len + 1)]
        if cut == "pad":
            return [[(start, min(end, start + seq_len))] for start, end in self.spans]
        return self._bins(seq_len)

    def _bins(self, seq_len: int) -> list[list[Piece]]:
        """Shard by shard the full windows of its documents, then their remainders, each where it fits best."""
        found, first = [], 0
        for shard in self.shards:
            spans = self.spans[first : first + len(shard)]
            first += len(shard)
            found += [[(at, at + seq_len)] for start, end in spans for at in range(start, end - seq_len + 1, seq_len)]
            found += _best_fit([(end - (end - start) % seq_len, end) for start, end in spans], seq_len)
        return found


def _best_fit(remainders: list[Piece], seq_len: int) -> list[list[Piece]]:
    bins: list[list[Piece]] = []
    free: list[int] = []
    since: list[int] = []  # when a bin came to have the room that it has
    longest_first = sorted(
        (piece for piece in remainders if piece[0] < piece[1]), key=lambda piece: piece[0] - piece[1]
    )
    for turn, (start, end) in enumerate(piece for piece in longest_first if piece[0] < piece[1]):
        fitting = [b for b in range(len(bins)) if free[b] >= end - start]
        if fitting:
            chosen = min(fitting, key=lambda b: (free[b], -since[b]))
        else:
            chosen = len(bins)
            bins.append([]), free.append(seq_len), since.append(turn)
        bins[chosen].append((start, end))
        free[chosen] -= end - start
        since[chosen] = turn
    return bins


@dataclass
class Era:
    """What is in force from a step on."""

    from_step: int
    weights: dict[str, Fraction]
    seq_len: int
    batch_size: int
    restart: bool = False


@dataclass
class Cursor:
    """How far a source has come: the epoch, and how many of its samples were taken."""

    epoch: int = 0
    index: int = 0


@dataclass
class Model:
    """A plan, walked through slot by slot from its first step."""

    corpora: list[Corpus]
    eras: list[Era]
    cut: str
    seed: int
    unit: int
    block: int
    shuffle: bool = True
    exclude: list[tuple[int, int, int, int, bool]] = field(
        default_factory=list
    )  # source, start, end, from_step, replaced

    def rows(self, steps: int) -> list[list[tuple[int, int, int, Era]]]:
        """For each step its (source, epoch, sample) and what was in force."""
        cursors = [Cursor() for _ in self.corpora]
        found: list[Any] = []
        for number, era in enumerate(self.eras):
            if number:
                self._enter(era, self.eras[number - 1], cursors)
            end = self.eras[number + 1].from_step if number + 1 < len(self.eras) else steps
            labels = self._labels(era)
            for _ in range(era.from_step, end):
                found.append([self._take(next(labels), era, cursors) for _ in range(era.batch_size)])
        return found

    def _size(self, k: int, era: Era) -> tuple[int, int]:
        """Units of an epoch, and sequences in each."""
        if self.cut == "chunk":
            return len(self.corpora[k].stream) // self.unit, self.unit // era.seq_len
        return len(self.corpora[k].samples(self.cut, era.seq_len)), 1

    def _enter(self, era: Era, last: Era, cursors: list[Cursor]) -> None:
        """Where sequences change their length, a source goes on at its next block of units, or at its next epoch."""
        for k, cursor in enumerate(cursors):
            units, parts = self._size(k, last)
            if era.restart and self._size(k, era) != (units, parts):
                moved = units * parts if cursor.index else 0
            elif era.seq_len != last.seq_len:
                block = UNITS_PER_BLOCK * parts
                moved = min(-(-cursor.index // block) * block, units * parts)
            else:
                continue
            if moved == units * parts:
                cursor.epoch, cursor.index = cursor.epoch + 1, 0
            else:
                cursor.index = moved // parts * self._size(k, era)[1]

    def _labels(self, era: Era) -> Any:
        """The source of slot after slot."""
        key = derive_key(self.seed, "mix", era.from_step)
        sums = [Fraction(0), *itertools.accumulate(era.weights[corpus.name] for corpus in self.corpora)]
        for b in itertools.count():
            edges = [[int(total * n * self.block) for total in sums] for n in (b, b + 1)]
            counts = [edges[1][k + 1] - edges[1][k] - edges[0][k + 1] + edges[0][k] for k in range(len(self.corpora))]
            in_order = [k for k, count in enumerate(counts) for _ in range(count)]
            if len(self.corpora) == 1:
                yield from in_order
            else:
                yield from (in_order[place] for place in _permuted(range(self.block), self.block, derive_key(key, b)))

    def _take(self, k: int, era: Era, cursors: list[Cursor]) -> tuple[int, int, int, Era]:
        cursor, (units, parts) = cursors[k], self._size(k, era)
        sample = self._sample(self.corpora[k].name, cursor, units, parts)
        taken = (k, cursor.epoch, sample, era)
        cursor.index += 1
        if cursor.index == units * parts:
            cursor.epoch, cursor.index = cursor.epoch + 1, 0
        return taken

    def _sample(self, name: str, cursor: Cursor, units: int, parts: int) -> int:
        if not self.shuffle:
            return cursor.index
        key = derive_key(derive_key(self.seed, "order", name), cursor.epoch)
        if parts == 1:
            return _permuted([cursor.index], units, key)[0]
        block, inside = divmod(cursor.index, UNITS_PER_BLOCK * parts)
        in_block = min(UNITS_PER_BLOCK, units - block * UNITS_PER_BLOCK)
        inside = _permuted([inside], in_block * parts, derive_key(key, block))[0]
        return _permuted([block * UNITS_PER_BLOCK + inside // parts], units, key)[0] * parts + inside % parts

    def row(self, step: int, taken: tuple[int, int, int, Era]) -> dict[str, list[int]]:
        """input_ids, labels, loss_mask and doc_ids of one row."""
        k, _, sample, era = taken
        corpus, made = self.corpora[k], {key: [] for key in ("input_ids", "labels", "loss_mask", "doc_ids")}  # type: ignore[var-annotated]
        whole = self.cut in ("chunk", "window")
        document = -1
        for start, end in self._samples(k, era.seq_len)[sample]:
            limit = len(corpus.stream) if whole else next(b for a, b in corpus.spans if a <= start < b)
            for at in range(start, end):
                document += at == start or (whole and any(a == at for a, _ in corpus.spans))
                out, replaced = self._is_out(k, at, step)
                made["input_ids"].append(corpus.eos if replaced else corpus.stream[at])
                made["loss_mask"].append((whole or at > start) and not out)
                target = at + 1 < limit and not self._is_out(k, at + 1, step)[0]
                made["labels"].append(corpus.stream[at + 1] if target else IGNORED)
                made["doc_ids"].append(document)
        padding = era.seq_len - len(made["input_ids"])
        for key, value in (("input_ids", corpus.eos), ("labels", IGNORED), ("loss_mask", False), ("doc_ids", -1)):
            made[key] += [value] * padding
        return made

    def _samples(self, k: int, seq_len: int) -> list[list[Piece]]:
        kept: dict[Any, Any] = self.__dict__.setdefault("_kept", {})
        if (k, seq_len) not in kept:
            kept[k, seq_len] = self.corpora[k].samples(self.cut, seq_len)
        return kept[k, seq_len]  # type: ignore[no-any-return]

    def _is_out(self, k: int, at: int, step: int) -> tuple[bool, bool]:
        """Whether a token is excluded, and whether it is replaced."""
        hits = [item for item in self.exclude if item[0] == k and item[1] <= at < item[2] and item[3] <= step]
        return bool(hits), any(item[4] for item in hits)


def _permuted(places: Any, size: int, key: int) -> list[int]:
    found: list[int] = permute(np.array(list(places), dtype=np.int64), size, key).tolist()
    return found
