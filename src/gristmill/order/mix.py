"""Which source each slot of a run takes its sample from: exact at every block's end, and a prefix of each source.

Slots come in blocks of M. With C_k the sum of the first k weights, source k has had

    N_k(b) = floor(C_k * b * M) - floor(C_(k-1) * b * M)

samples after b blocks: the sums are exact, and each N_k(b) is within one sample of its weight. Inside a block the
slots are labelled by a permutation; the j-th slot of source k, in slot order, takes the source's sample N_k(b) + j.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import derive_key
from gristmill.core.values import shown
from gristmill.order.options import MOST
from gristmill.order.permute import permute, unpermute

DEFAULT_BLOCK = 4096
_TOLERANCE = Fraction(1, 10**6)
# A decimal or p/q. An exponent of more digits would be a number that takes all memory.
_DECIMAL = re.compile(r"\s*[-+]?[\d_]*(\.[\d_]*)?([eE][-+]?\d{1,3})?(/[\d_]+)?\s*")


def exact_weights(weights: Mapping[str, object], names: tuple[str, ...], where: str) -> tuple[Fraction, ...]:
    """The weights as rationals read from their decimal text, in the order of `names`, scaled to sum to exactly 1."""
    for name in weights:
        if name not in names:
            raise ConfigError(f"Weight for unknown source {name!r} in {where}{did_you_mean(name, names)}.")
    values = tuple(_rational(weights.get(name, 0), name, where) for name in names)
    total = sum(values, Fraction(0))
    if abs(total - 1) > _TOLERANCE:
        listed = ", ".join(f"{name} {weights[name]}" for name in names if name in weights)
        added = f"{float(total):g}" if total < 10**100 else "far more"
        raise ConfigError(f"The weights of {where} add up to {added}, not 1 ({listed}): scale them.")
    return tuple(value / total for value in values)


def _rational(value: object, name: str, where: str) -> Fraction:
    text = str(value)
    try:
        if not isinstance(value, Fraction) and not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        weight = value if isinstance(value, Fraction) else Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"The weight of {name!r} in {where} is {shown(value)}, not a number.") from error
    if weight < 0:
        raise ConfigError(f"The weight of {name!r} in {where} is {shown(value)}, below zero.")
    return weight


def weight_text(weight: Fraction) -> str:
    """The shortest exact text of a weight: a decimal where it has one, else p/q."""
    decimal = Decimal(weight.numerator) / Decimal(weight.denominator)
    return format(decimal.normalize(), "f") if Fraction(decimal) == weight else str(weight)


def block_size(weights: tuple[Fraction, ...], asked: int | None) -> int:
    """The plan constant M: 4,096 unless asked for, and never under 1 / smallest positive weight."""
    smallest = min(weight for weight in weights if weight > 0)
    needed = -(-smallest.denominator // smallest.numerator)
    if needed > MOST["block"]:
        raise ConfigError(
            f"A weight of {float(smallest):g} is too small: give every source 1 / {MOST['block']:,} or 0."
        )
    if asked is None:
        return max(DEFAULT_BLOCK, needed)
    if asked < needed:
        raise ConfigError(f"A block of {asked} samples cannot hold a weight of {float(smallest):g}: at least {needed}.")
    return asked


# A source has given its share of so many blocks to within a sample: a weight of a block has one at least. And 2^53
# slots, which floats still tell apart, are beyond every run.
_NEAR = 3


@dataclass(frozen=True)
class Mix:
    """The labels of an endless row of slots, by blocks of `block`, keyed by `key`."""

    weights: tuple[Fraction, ...]
    block: int
    key: int

    def before_block(self, b: int) -> Ints:
        """N_k(b) for every source k: samples given by the first `b` blocks."""
        sums = itertools.accumulate(self.weights, initial=Fraction(0))
        floors = [c.numerator * b * self.block // c.denominator for c in sums]
        edges = np.array(floors, dtype=np.int64)
        return edges[1:] - edges[:-1]

    def labels(self, slots: Ints) -> tuple[Ints, Ints]:
        """For each slot its source, and how many samples that source gave to earlier slots."""
        if len(self.weights) == 1:
            return np.zeros_like(slots), slots
        source, ordinal = np.empty_like(slots), np.empty_like(slots)
        blocks = slots // self.block
        for b in np.unique(blocks):
            here = blocks == b
            inside = slots[here] - b * self.block
            block_labels, block_ordinals = _labelled_block(self, int(b))
            source[here], ordinal[here] = block_labels[inside], block_ordinals[inside]
        return source, ordinal

    def given(self, slots: int) -> Ints:
        """How many samples each source has given after the first `slots` slots, exactly."""
        b, inside = divmod(slots, self.block)
        counts = self.before_block(b)
        if inside:
            labels, _ = _labelled_block(self, b)
            counts = counts + np.bincount(labels[:inside], minlength=len(self.weights))
        return counts

    def slots_of(self, source: int, ordinals: Ints) -> Ints:
        """The slots that take the source's samples `ordinals`: the inverse of `labels`, found by arithmetic."""
        if len(self.weights) == 1 or not len(ordinals):
            return ordinals
        blocks, which = np.unique(self._blocks_of(source, ordinals), return_inverse=True)
        slots = np.empty_like(ordinals)
        by_block = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        for b, here in zip(blocks.tolist(), by_block, strict=True):
            slots[here] = b * self.block + self._inside(b, source)[ordinals[here] - self._before(b, source)]
        return slots

    def _before(self, b: int, source: int) -> int:
        """N_k(b) of one source."""
        low, high = self._edges[source], self._edges[source + 1]
        slots = b * self.block
        return high.numerator * slots // high.denominator - low.numerator * slots // low.denominator

    @cached_property
    def _edges(self) -> tuple[Fraction, ...]:
        return tuple(itertools.accumulate(self.weights, initial=Fraction(0)))

    def _blocks_of(self, source: int, ordinals: Ints) -> Ints:
        """The blocks that give a source's samples: near where its weight lets expect them, and there exactly."""
        about = (ordinals / (float(self.weights[source]) * self.block)).astype(np.int64)
        near = np.unique(np.unique(about)[:, None] + np.arange(-_NEAR, _NEAR + 1))
        near = near[near >= 0]
        before = np.array([self._before(b, source) for b in near.tolist()], dtype=np.int64)
        return near[np.searchsorted(before, ordinals, side="right") - 1]

    def _inside(self, b: int, source: int) -> Ints:
        """The slots of a block that are a source's, in rising order: those whose places are its own, taken back."""
        counts = self.before_block(b + 1) - self.before_block(b)
        first = int(counts[:source].sum())
        places = np.arange(first, first + int(counts[source]), dtype=np.int64)
        return np.sort(unpermute(places, self.block, derive_key(self.key, b)))


@functools.lru_cache(maxsize=64)
def _labelled_block(mix: Mix, b: int) -> tuple[npt.NDArray[np.int16], Ints]:
    """The labels of block b's slots, and each slot's ordinal in its source, counted from the start of the mix."""
    before = mix.before_block(b)
    counts = mix.before_block(b + 1) - before
    places = permute(np.arange(mix.block), mix.block, derive_key(mix.key, b))
    labels = np.repeat(np.arange(len(counts), dtype=np.int16), counts)[places]
    in_source_order = np.argsort(labels, kind="stable")
    starts = np.cumsum(counts) - counts
    ordinals = np.empty(mix.block, dtype=np.int64)
    ordinals[in_source_order] = np.arange(mix.block) + np.repeat(before - starts, counts)
    return labels, ordinals
