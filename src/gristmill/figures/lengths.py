"""How long documents are in tokens, and what sequences of common lengths make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.store.reader import Store

SEQ_LENS = (512, 1024, 2048, 4096, 8192, 32768)
# Lengths are counted one by one up to here; the few that are longer count as this long for the quantiles.
_COUNTED = 1 << 20


@dataclass(frozen=True)
class LengthBin:
    """Documents of `least` to `most` tokens, EOS included."""

    least: int
    most: int
    documents: int
    tokens: int


@dataclass(frozen=True)
class SequenceFit:
    """What sequences of a length do: documents that `chunk` splits, and what `pad` adds or cuts off, in tokens."""

    seq_len: int
    split_documents: int
    padding_tokens: int
    truncated_documents: int
    truncated_tokens: int


@dataclass(frozen=True)
class LengthFigures:
    """Lengths of all documents in tokens, EOS included."""

    documents: int
    tokens: int
    median: int
    ninth_decile: int
    longest: int
    bins: list[LengthBin]
    fits: list[SequenceFit]


def length_figures(stores: Sequence[Store]) -> LengthFigures:
    """The lengths of all documents, by the index of each shard."""
    counts, longest, tokens = np.zeros(_COUNTED + 1, np.int64), 0, 0
    fits = {seq_len: np.zeros(4, np.int64) for seq_len in SEQ_LENS}
    for start, lengths in _shards(stores):
        counts += np.bincount(np.minimum(lengths, _COUNTED), minlength=_COUNTED + 1)
        longest, tokens = max(longest, int(lengths.max())), tokens + int(lengths.sum())
        for seq_len, sums in fits.items():
            sums += _fit(start, lengths, seq_len)
    documents = int(counts.sum())
    return LengthFigures(
        documents=documents,
        tokens=tokens,
        median=_quantile(counts, 0.5),
        ninth_decile=_quantile(counts, 0.9),
        longest=longest,
        bins=_bins(counts, longest, tokens) if documents else [],
        fits=[SequenceFit(seq_len, *sums.tolist()) for seq_len, sums in fits.items()] if documents else [],
    )


def _shards(stores: Sequence[Store]) -> Iterator[tuple[int, Ints]]:
    """Where each shard's tokens begin in its split, and the lengths of its documents."""
    for store in stores:
        for shard in range(store.num_shards):
            lengths = store.document_lengths(shard)
            if len(lengths):
                yield store.tokens_in(shard), lengths


def _fit(start: int, lengths: Ints, seq_len: int) -> Ints:
    ends = start + np.cumsum(lengths)
    split = ((ends - lengths) // seq_len != (ends - 1) // seq_len).sum()
    over = np.maximum(lengths - seq_len, 0)
    under = np.maximum(seq_len - lengths, 0)
    return np.array([split, under.sum(), np.count_nonzero(over), over.sum()], np.int64)


def _quantile(counts: Ints, share: float) -> int:
    below = np.cumsum(counts)
    return int(np.searchsorted(below, share * below[-1])) if below[-1] else 0


def _bins(counts: Ints, longest: int, tokens: int) -> list[LengthBin]:
    """Powers of two, from the first that has documents to the last."""
    edges = [1 << power for power in range(21)]
    own = np.arange(len(counts)) * counts
    found = [LengthBin(least, 2 * least - 1, int(counts[least : 2 * least].sum()), int(own[least : 2 * least].sum()))
             for least in edges[:-1]]  # fmt: skip
    inside = sum(bin.tokens for bin in found)
    found.append(LengthBin(edges[-1], max(longest, edges[-1]), int(counts[edges[-1]]), tokens - inside))
    filled = [number for number, bin in enumerate(found) if bin.documents]
    return found[filled[0] : filled[-1] + 1]
