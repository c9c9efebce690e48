"""Document boundaries of files that only mark them by a token: a scan for EOS, kept as a Megatron `.idx`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.places.door import place_at
from gristmill.store.format import IDX_CODES, write_idx

if TYPE_CHECKING:
    from gristmill.store.reader import Store

_SCAN_TOKENS = 1 << 24


def scanned_lengths(tokens: npt.NDArray[Any], eos: int, comes_first: bool) -> Ints:
    """Lengths of the documents that EOS ends (or, as in llm.c files, begins); what is left over is a document too."""
    marks = [np.flatnonzero(tokens[at : at + _SCAN_TOKENS] == eos) + at for at in range(0, len(tokens), _SCAN_TOKENS)]
    ends = np.concatenate([*marks, np.empty(0, np.int64)]).astype(np.int64) + (0 if comes_first else 1)
    edges = np.unique(np.concatenate([np.array([0, len(tokens)]), ends]))
    return np.diff(edges)


def write_scanned_idx(store: Store, shard: int, path: Path) -> None:
    """Scan one shard and write the `.idx` of its documents."""
    if store.eos is None:
        raise ConfigError(f"{store.facts.path} has no document boundaries and no eos= to find them by.")
    if store.dtype.name not in IDX_CODES:
        raise ConfigError(f"A Megatron index cannot describe {store.dtype} tokens.")
    lengths = scanned_lengths(store.shard_tokens(shard), store.eos, store.facts.boundary == "bos")
    with place_at(path).writing() as file:
        write_idx(file, lengths, store.dtype.name)
