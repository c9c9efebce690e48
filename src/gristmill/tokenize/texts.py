"""The texts of an Arrow column as flat arrays: views into Arrow's own buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.texts import Texts

TextColumn: TypeAlias = pa.StringArray | pa.LargeStringArray | Sequence[str]


def flat_texts(texts: TextColumn) -> Texts:
    """The documents of an Arrow string array (no copy) or of a list of strings (one copy). Null is empty."""
    array = _arrow_strings(texts)
    if len(array) == 0:
        return Texts(np.empty(0, np.uint8), np.zeros(1, np.int64))
    _, offsets_buffer, data_buffer = array.buffers()
    width = np.int64 if str(array.type) == "large_string" else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(data_buffer or b"", np.uint8)[first:last]
    starts = offsets.astype(np.int64, copy=False)
    return Texts(data, starts - first if first else starts)


def _arrow_strings(texts: TextColumn) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else []
    if not isinstance(texts, pa.Array):
        return _from_list(texts)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise ConfigError(f"texts must be string or large_string, not {texts.type}: cast the column first.")
    return texts.fill_null("") if texts.null_count else texts


def _from_list(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(texts) if text.encode("utf-8", "ignore").decode() != text)
        raise SourceError(f"Row {row} of the batch is not valid Unicode ({error.reason}): clean it first.") from error
