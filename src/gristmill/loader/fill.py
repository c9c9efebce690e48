"""Pieces to arrays: one compiled pass over a shard table, into memory that is used again. No plan, store or file here.

A shard table may be of mapped files, decompressed frames or plain buffers: see `store.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import as_names
from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.loader.buffers import Buffers
from gristmill.loader.pieces import Pieces

if TYPE_CHECKING:
    from gristmill.store.table import DocumentColumns, ShardColumns

Batch = dict[str, npt.NDArray[Any]]
# The arrays of a batch. The compiled pass fills all but the last, in this order.
DTYPES: dict[str, type[np.generic]] = {
    "input_ids": np.int64,
    "labels": np.int64,
    "loss_mask": np.bool_,
    "doc_ids": np.int32,
    "position_ids": np.int32,
    "cu_seqlens": np.int32,
    "attention_mask": np.int64,
}
KEYS = (*DTYPES, "sample_ids")
IGNORED = -100
_ABSENT = [(key, np.empty((0, 0), dtype=dtype)) for key, dtype in DTYPES.items() if key != "attention_mask"]
_NONE = np.empty(0, dtype=np.int64)
NO_DOCUMENTS: DocumentColumns = (_NONE, _NONE, _NONE, _NONE, _NONE, _NONE)


class Filler:
    """Fills arrays for `keys`; padding becomes `eos`. Safe to call from many threads.

    by_piece: each piece is a document, whose first token is no target; else documents are looked up in a document
    table. max_docs: columns of cu_seqlens, seq_len // 64 by default. Up to `buffer_bytes` are kept for use again.
    past_caches: nobody reads what is filled before the caches have lost it, so that it need not go through them.
    """

    def __init__(
        self,
        keys: Sequence[str],
        *,
        eos: int,
        by_piece: bool,
        max_docs: int | None,
        buffer_bytes: int,
        past_caches: bool = False,
    ) -> None:
        self.keys, self._eos, self._by_piece, self._max_docs = tuple(keys), eos, by_piece, max_docs
        self._past_caches = past_caches
        self._buffers = Buffers(buffer_bytes)

    @cached_property
    def _assemble(self) -> Callable[..., None]:
        from gristmill.store.kernels import assemble  # which imports Numba: not before the first batch

        return assemble

    def bytes_per_row(self, seq_len: int) -> int:
        """What one row of a batch takes in memory."""
        return sum(np.dtype(DTYPES[key]).itemsize * self._columns(key, seq_len, seq_len) for key in self.keys)

    def _columns(self, key: str, seq_len: int, width: int) -> int:
        """Columns of an array; cu_seqlens has as many whatever the width, so that compiled models see one shape."""
        return (self._max_docs or max(seq_len // 64, 1)) + 1 if key == "cu_seqlens" else width

    def fill(
        self,
        shards: ShardColumns,
        documents: DocumentColumns,
        pieces: Pieces,
        edges: Ints,
        seq_len: int,
        width: int,
    ) -> tuple[Batch, Ints]:
        """Arrays of (rows, width) for the rows whose pieces begin at `edges`, the last of which is the end.

        Beside them, for each row, how many documents cu_seqlens had no room for.
        """
        shapes = ((key, (len(edges) - 1, self._columns(key, seq_len, width))) for key in self.keys)
        batch = {key: self._buffers.empty(key, shape, DTYPES[key]) for key, shape in shapes}
        arrays = [batch.get(key, absent) for key, absent in _ABSENT]
        merged = np.empty(len(edges) - 1 if "cu_seqlens" in batch else 0, dtype=np.int64)
        how = self._by_piece, self._eos, self._past_caches
        self._assemble(shards, documents, edges, *pieces[1:5], *how, *arrays, merged)
        if "attention_mask" in batch:
            _attend(pieces, edges, batch["attention_mask"])
        return batch, merged


def _attend(pieces: Pieces, edges: Ints, mask: Ints) -> None:
    """1 for the tokens of each row, 0 for the padding after them."""
    kept = np.append(0, np.cumsum(pieces.lengths[edges[0] : edges[-1]]))
    filled = np.diff(kept[edges - edges[0]])
    np.less(np.arange(mask.shape[1]), filled[:, None], out=mask)


def as_keys(keys: str | Sequence[str]) -> tuple[str, ...]:
    """The keys asked for, one or several; one that no batch has is refused."""
    names = as_names("keys", keys, f"one of {', '.join(KEYS)}, or a list of them")
    for key in names:
        if key not in KEYS:
            raise ConfigError(f"keys {key!r} is not known{did_you_mean(key, KEYS)}.", arguments="keys")
    return names
