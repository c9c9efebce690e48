"""The narrow function of this stage: an Arrow record batch with `text` in, one with `tokens` out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.tokenizer import Tokenizer


def encode_batch(batch: pa.RecordBatch, tokenizer: Tokenizer) -> pa.RecordBatch:
    """`batch` with its column `text` replaced, in place, by `tokens`: lists of ids with the EOS at their end.

    A document without tokens gets an empty list, not a lone EOS: the writer drops and counts it. The ids go
    into Arrow without a copy, as large lists (64-bit offsets) of uint16 or uint32.
    """
    column = batch.schema.get_field_index("text")
    if column < 0:
        raise ConfigError(f"The batch has no column 'text'{did_you_mean('text', batch.schema.names)}.")
    ids, offsets = append_eos(*tokenizer.encode_batch(batch.column(column)), tokenizer.eos)
    columns, names = list(batch.columns), list(batch.schema.names)
    columns[column], names[column] = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids)), "tokens"
    return pa.RecordBatch.from_arrays(columns, names=names)


def append_eos(ids: Ids, offsets: Ints, eos: int) -> tuple[Ids, Ints]:
    """The same documents with `eos` after each that is not empty."""
    filled = np.diff(offsets) > 0
    ends = offsets[1:][filled]
    moved = offsets.copy()
    moved[1:] += np.cumsum(filled)
    return np.insert(ids, ends, eos), moved
