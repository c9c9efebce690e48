"""Augmentation of rows that are filled: each document keeps its columns, whatever is done to its tokens.

So masks, document numbers, positions and exclusions stay true. What sentinels push out of a document is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gristmill.core.arrays import Hashes, Ints
from gristmill.core.errors import ConfigError
from gristmill.core.functions import called
from gristmill.core.hashing import derive_key, mix64, mix64_array
from gristmill.core.values import shown
from gristmill.loader.fill import IGNORED, Batch
from gristmill.loader.pieces import Pieces
from gristmill.order.augment import FIM, Augmentation, Mask, Noise, Own, SpanCorruption

# Tokens, labels, the three columns of pieces, keys, limits, EOS: what all kernels of rows begin with.
Rows = tuple[Ints, Ints, Ints, Ints, Ints, Hashes, Hashes, int]
_NO_LABELS, _NO_MASK = np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_)


def keys_below(keys: Hashes, *columns: Ints) -> Hashes:
    """`derive_key(..., a, b)` of each row from the key of what comes before, which is a row's own too."""
    for column in columns:
        keys = mix64_array(keys ^ mix64_array(column.astype(np.uint64)))
    return keys


def first_keys(seed: int, names: Sequence[str]) -> Hashes:
    """The keys of sources, below which each row has its own."""
    return np.array([derive_key(seed, "augment", name) for name in names], np.uint64)


def key_of(keys: Hashes, number: int) -> Hashes:
    """The rows' keys for the augmentation of this number."""
    return mix64_array(keys ^ np.uint64(mix64(number)))


def limit_of(rate: float) -> np.uint64:
    """A rate as kernels compare it: 53 bits, of which 1 is above all."""
    return np.uint64(round(rate * 2**53))


def rates_of(augmentation: Augmentation) -> Hashes:
    """The limits of all sources, of one that is `known`."""
    assert isinstance(augmentation.rate, Mapping)
    return np.array([limit_of(rate) for rate in augmentation.rate.values()], np.uint64)


class Augmenter:
    """Does what `augmentations`, which are `known`, say of rows whose documents end with `eos`; in any thread.

    `special` are further tokens that are neither hidden nor blurred.
    """

    def __init__(self, augmentations: Sequence[Augmentation], eos: int, special: Sequence[object] = ()) -> None:
        numbered = [(i, each, rates_of(each)) for i, each in enumerate(augmentations)]
        self._moving = [item for item in numbered if not isinstance(item[1], Mask | Noise)]
        self._replacing = [item for item in numbered if isinstance(item[1], Mask | Noise)]
        self._eos = eos
        own = [token for each in augmentations for token in each.special]
        self._special = np.array([eos, *special, *own], np.int64)
        self.targets = tuple(dict.fromkeys(key for each in augmentations for key in each.targets))

    def apply(self, batch: Batch, pieces: Pieces, edges: Ints, sample_ids: Ints, keys: Hashes) -> Ints:
        """Change the rows whose pieces begin at `edges`, which have a key each; how many tokens each has lost by it."""
        from gristmill.loader.augment_kernels import relabel_rows  # which imports Numba

        displaced = np.zeros(len(edges) - 1, np.int64)
        tokens, labels = batch["input_ids"], batch.get("labels", _NO_LABELS)
        placed, sources = (edges, pieces.columns, pieces.lengths), sample_ids[:, 0].clip(min=0)
        for step in (self._moving, self._replacing):
            for number, each, rates in step:
                rows = (tokens, labels, *placed, key_of(keys, number), rates[sources], self._eos)
                if isinstance(each, Own):
                    _call(each.function, sample_ids, *rows)
                else:
                    self._run(each, rows, batch, displaced)
            if step is self._moving and step and labels.size:
                relabel_rows(tokens, labels, batch.get("loss_mask", _NO_MASK), *placed)
        return displaced

    def _run(self, each: Augmentation, own: Rows, batch: Batch, displaced: Ints) -> None:
        from gristmill.loader import augment_kernels as kernels

        if isinstance(each, FIM):
            kernels.fim_rows(*own, limit_of(each.spm_rate), np.array(each.special, np.int64), displaced)
        elif isinstance(each, SpanCorruption):
            ids = np.array(each.special, np.int64)
            kernels.corrupt_rows(*own, each.density, each.mean_length, ids, batch["loss_mask"], displaced)
        elif isinstance(each, Mask):
            limits = limit_of(each.masked), limit_of(min(each.masked + each.random, 1.0))
            kernels.mask_rows(*own, each.vocab_size, *limits, each.token, self._special, batch["loss_mask"])
        elif isinstance(each, Noise):
            kernels.noise_rows(*own, each.vocab_size, self._special)


def _call(
    function: Callable[..., object], sample_ids: Ints, tokens: Ints, labels: Ints, edges: Ints, columns: Ints,
    lengths: Ints, keys: Hashes, limits: Hashes, eos: int,
) -> None:  # fmt: skip
    """A function of the user's, for each document of each row that is not empty."""
    for row, key in enumerate(keys.tolist()):
        what = "a document of source {}, epoch {}, sample {}".format(*sample_ids[row].tolist())
        for i in range(edges[row], edges[row + 1]):
            end = int(columns[i] + lengths[i])
            for begin, stop in _documents(tokens[row], int(columns[i]), end, eos):
                given = tokens[row, begin:stop]
                made = call_own(function, given, derive_key(key, begin), what)
                if len(made) != len(given):
                    raise ConfigError(
                        f"{called(function)} returned {len(made)} tokens for {len(given)}: rows of a plan have their "
                        "length, so return as many. (In a stream a document may change its length.)"
                    )
                if stop == end and labels.size and not np.array_equal(given, made):
                    labels[row, end - 1] = IGNORED
                tokens[row, begin:stop] = made


def _documents(line: Ints, begin: int, end: int, eos: int) -> Iterator[tuple[int, int]]:
    """Where the documents of a piece begin and end, without EOS; those that have no token are left out."""
    for stop in [*(np.flatnonzero(line[begin:end] == eos) + begin).tolist(), end]:
        if stop > begin:
            yield begin, stop
        begin = stop + 1


def call_own(function: Callable[..., object], tokens: Ints, key: int, what: str) -> Ints:
    """What a function of the user's makes of a document's tokens, and of a generator that the key seeds.

    `what` names the document, for errors.
    """
    rng = np.random.Generator(np.random.Philox(key=key))
    try:
        made = np.asarray(function(tokens.astype(np.int64), rng))
    except Exception as error:
        raise ConfigError(f"{called(function)} failed on {what}: {type(error).__name__}: {error}.") from error
    if made.ndim != 1 or (made.size and (made.dtype.kind not in "iu" or made.min() < 0)):
        raise ConfigError(
            f"{called(function)} returned {shown(made)} for {what}: return a one-dimensional array of token ids."
        )
    return made.astype(np.int64)
