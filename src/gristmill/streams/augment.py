"""Augmentation in a stream: documents are rearranged before they become rows, so nothing of them is lost.

What hides or blurs tokens (Mask, Noise) works on rows, as it does in a plan. Documents draw from (seed, epoch, unit,
block, row as it was read), rows from their place in their lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gristmill.core.arguments import refuse
from gristmill.core.arrays import Hashes, Ints
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.core.texts import Texts, arrow_texts
from gristmill.curate.documents import text_column
from gristmill.loader.augment import Augmenter, call_own, first_keys, key_of, keys_below, limit_of
from gristmill.loader.fill import Batch
from gristmill.loader.pieces import Pieces
from gristmill.order.augment import FIM, Augmentation, Mask, Noise, Own, SpanCorruption, as_augmentations, known
from gristmill.store.format import dtype_for
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gristmill.streams.assembly import Fed
    from gristmill.streams.stream import Stream

Encode = Callable[[pa.Array], tuple[Ids, Ints]]
# A stream has its rates alone: they are kept as those of a source of this name.
ALONE = "stream"
_NO_LABELS = np.empty((0, 0), np.int64)


def for_stream(given: Sequence[object], tokenizer: Tokenizer) -> tuple[Augmentation, ...]:
    """Augmentations with the ids that a tokenizer has for their tokens."""
    made = as_augmentations(given)
    for each in made:
        if not isinstance(each.rate, float | int):
            raise refuse("rate", "a number: each stream of a mix has augmentations of its own", each.rate)
    for each in made[1:]:
        if isinstance(each, FIM) and each.level == "character":
            raise ConfigError('FIM(level="character") works on the text, so it comes first.')
    return known(made, {ALONE: tokenizer})


def rate_of(augmentation: Augmentation) -> float:
    """The rate of one that is a stream's."""
    assert isinstance(augmentation.rate, dict)
    return float(augmentation.rate[ALONE])


def asks(streams: Sequence[Stream]) -> bool:
    """Whether rows of streams, which are alike, are changed after they are filled."""
    return any(each.last for each in streams[0].augmentations)


def check_alike(sources: Sequence[tuple[str, Sequence[Augmentation]]]) -> None:
    """Refuse sources of a mix, by name, that ask for other tokens than the first: a batch has labels of one kind."""
    asked = [[replace(each, rate=0.0) for each in augmentations if each.last] for _, augmentations in sources]
    for (name, _), each in zip(sources, asked, strict=True):
        if each != asked[0]:
            raise ConfigError(
                f"Sources of one mix ask for tokens in one way: that of {name!r} is another. The rate may differ, and "
                "be 0; what is done to stores is said by gm.mix(..., augment=[...])."
            )


def rearranger(
    augmentations: Sequence[Augmentation], tokenizer: Tokenizer, key: int, seq_len: int
) -> Rearranger | None:
    """What rearranges documents, if any of the augmentations does."""
    if all(isinstance(each, Mask | Noise) for each in augmentations):
        return None
    return Rearranger(augmentations, tokenizer, key, seq_len)


class Rearranger:
    """Texts to ids, documents rearranged on the way. Safe to call from many threads."""

    def __init__(self, augmentations: Sequence[Augmentation], tokenizer: Tokenizer, key: int, seq_len: int) -> None:
        self._each = [(i, each) for i, each in enumerate(augmentations) if not isinstance(each, Mask | Noise)]
        self._key, self._seq_len = key, seq_len
        highest = max([tokenizer.vocab_size - 1, *(int(token) for each in augmentations for token in each.special)])
        marks = any(isinstance(each, SpanCorruption) for each in augmentations)
        self.dtype = np.dtype(np.uint32 if marks else dtype_for(highest + 1))

    def encode(self, documents: pa.RecordBatch, place: tuple[int, int, int], encode: Encode) -> tuple[Ids, Ints]:
        """Ids end to end, without EOS, and offsets; `place` is (epoch, unit, block)."""
        texts, rows = documents.column("text"), documents.column("doc").to_numpy()
        keys = keys_below(np.full(len(rows), derive_key(self._key, *place), np.uint64), rows)
        first = self._each[0][1]
        if isinstance(first, FIM) and first.level == "character":
            ids, offsets, cuts = self._by_characters(first, arrow_texts(texts), key_of(keys, 0), encode)
        else:
            (ids, offsets), cuts = encode(texts), np.full((len(rows), 2), -1, np.int64)
        ids = ids.astype(np.int64)
        for number, each in self._each:
            own = key_of(keys, number)
            if isinstance(each, Own):
                ids, offsets = _called(each, ids, offsets, own, documents.column("id"))
            else:
                ids, offsets = self._run(each, ids, offsets, cuts, own)
        return self._narrowed(ids), offsets

    def _narrowed(self, ids: Ints) -> Ids:
        """In the dtype of blocks; a function of the user's may have given anything."""
        if ids.size and int(ids.max()) > np.iinfo(self.dtype).max:
            raise ConfigError(f"An augmentation gave the token {int(ids.max())}, which is outside the vocabulary.")
        return ids.astype(self.dtype)

    def _run(self, each: Augmentation, ids: Ints, offsets: Ints, cuts: Ints, keys: Hashes) -> tuple[Ints, Ints]:
        from gristmill.streams import augment_kernels as kernels  # which imports Numba

        special = np.array(each.special, np.int64)
        # A stretch of one token becomes four at most.
        out, ends = np.empty(4 * len(ids), np.int64), np.zeros(len(offsets), np.int64)
        limit = limit_of(rate_of(each))
        if isinstance(each, FIM):
            rate = limit_of(each.spm_rate)
            kernels.fim_documents(ids, offsets, cuts, keys, limit, rate, special, self._seq_len, out, ends)
        elif isinstance(each, SpanCorruption):
            options = each.density, each.mean_length, special, self._seq_len
            kernels.corrupt_documents(ids, offsets, keys, limit, *options, out, ends)
        return out[: ends[-1]], ends

    def _by_characters(self, fim: FIM, texts: Texts, keys: Hashes, encode: Encode) -> tuple[Ids, Ints, Ints]:
        """Ids of documents, whose parts are encoded by themselves, and where in these the parts meet.

        A document that does not fit a row is encoded as a whole, and cut by tokens.
        """
        from gristmill.streams.augment_kernels import cut_texts

        cuts = np.empty((len(texts), 2), np.int64)
        cut_texts(texts.data, texts.offsets, keys, limit_of(rate_of(fim)), cuts)
        chosen = cuts[:, 0] >= 0
        split = np.sort(np.concatenate([texts.offsets, cuts[chosen].ravel()]))
        ids, offsets = encode(text_column(texts.data, split))
        first = np.arange(len(texts) + 1) + 2 * np.append(0, np.cumsum(chosen))
        begins = offsets[first]
        long = np.flatnonzero(chosen & (np.diff(begins) + 3 > self._seq_len))
        cuts[chosen] = offsets[first[:-1][chosen, None] + [1, 2]] - begins[:-1][chosen, None]
        cuts[long] = -1
        if len(long):
            whole = text_column(texts.data, texts.offsets).take(pa.array(long))
            ids, begins = _replaced(ids, begins, long, *encode(whole))
        return ids, begins, cuts


def _replaced(ids: Ids, offsets: Ints, rows: Ints, others: Ids, other_offsets: Ints) -> tuple[Ids, Ints]:
    """The same documents, of which those in `rows` are replaced by `others`."""
    parts = [ids[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    for i, row in enumerate(rows.tolist()):
        parts[row] = others[other_offsets[i] : other_offsets[i + 1]]
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def _called(own: Own, ids: Ints, offsets: Ints, keys: Hashes, names: pa.Array) -> tuple[Ints, Ints]:
    """What a function makes of each document that is not empty, as long as it likes."""
    each = zip(offsets[:-1].tolist(), offsets[1:].tolist(), keys.tolist(), names.to_pylist(), strict=True)
    parts = [call_own(own.function, ids[a:b], key, f"document {name!r}") if b > a else ids[a:b]
             for a, b, key, name in each]  # fmt: skip
    return np.concatenate([ids[:0], *parts]), np.cumsum([0, *map(len, parts)])


class AugmentedRows:
    """What is done to filled rows of streams: marks are taken off, tokens hidden or blurred. `lanes` are a rank's."""

    def __init__(self, streams: Sequence[Stream], seed: int, lanes: range) -> None:
        names, lasts = [stream.name for stream in streams], [stream.augmentations[-1] for stream in streams]
        last = replace(lasts[0], rate=dict(zip(names, map(rate_of, lasts), strict=True)))
        special = [token for stream in streams for each in stream.augmentations for token in each.special]
        self._marked, self.targets = isinstance(last, SpanCorruption), last.targets
        self._augmenter = Augmenter([] if self._marked else [last], streams[0].encoder.eos, special)
        self._keys, self._lanes = first_keys(seed, names), np.array(lanes)

    def keys(self, fed: Fed, rows: int) -> Hashes:
        """The key of each row that a lane has given."""
        keys = np.zeros(rows, np.uint64)
        lanes = self._lanes[fed.rows % len(self._lanes)]
        keys[fed.rows] = keys_below(self._keys[fed.sources], lanes, *fed.told[:, :3].T)
        return keys

    def apply(self, batch: Batch, pieces: Pieces, edges: Ints, sample_ids: Ints, keys: Hashes) -> None:
        """Change the rows whose pieces begin at `edges`."""
        if self._marked:
            from gristmill.streams.augment_kernels import unmark_rows

            unmark_rows(batch["input_ids"], batch.get("labels", _NO_LABELS), batch["loss_mask"])
        self._augmenter.apply(batch, pieces, edges, sample_ids, keys)
