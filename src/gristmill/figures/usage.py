"""Which token ids a store uses, by a sample of it that is read in even pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.store.reader import Store

_PIECE = 1 << 18
_PIECES = 64  # 16.8 million tokens: a tenth of a second, and 33 MB of a bucket


@dataclass(frozen=True)
class TokenUse:
    """An id, how often the sample has it, and what it stands for."""

    id: int
    count: int
    text: str


@dataclass(frozen=True)
class UsageFigures:
    """Of `read` tokens in `tokens`: the ids of the vocabulary that none of them is, and the most frequent ones."""

    tokens: int
    read: int
    vocab_size: int
    unused: int
    most: list[TokenUse]

    @property
    def sampled(self) -> bool:
        return self.read < self.tokens


def usage_figures(stores: Sequence[Store], vocab_size: int, most: int = 20) -> UsageFigures:
    """Count ids: of all tokens if they are few, else of pieces that lie evenly over the stores."""
    counts, total = np.zeros(vocab_size, np.int64), sum(store.num_tokens for store in stores)
    for store in stores:
        for begin, end in pieces(store.num_tokens, max(1, _PIECES * store.num_tokens // max(total, 1))):
            counts += np.bincount(store.tokens(begin, end), minlength=vocab_size)[:vocab_size]
    return UsageFigures(total, int(counts.sum()), vocab_size, int(np.count_nonzero(counts == 0)),
                        _most(counts, stores, most))  # fmt: skip


def pieces(tokens: int, count: int, size: int = _PIECE) -> list[tuple[int, int]]:
    """`count` pieces of `size` tokens that lie evenly over `tokens`, or all of them where these are no more."""
    if tokens <= count * size:
        return [(begin, min(begin + size, tokens)) for begin in range(0, tokens, size)]
    return [(begin, begin + size) for begin in np.linspace(0, tokens - size, count).astype(np.int64).tolist()]


def _most(counts: Ints, stores: Sequence[Store], most: int) -> list[TokenUse]:
    """A text is known only where the store has its tokenizer."""
    best = [number for number in np.argsort(-counts, kind="stable")[:most].tolist() if counts[number]]
    known = next((store for store in stores if store.facts.tokenizer), None)
    return [TokenUse(number, int(counts[number]), known.decode([number]) if known else "") for number in best]
