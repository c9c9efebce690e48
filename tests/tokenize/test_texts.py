from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gristmill.core.errors import ConfigError, SourceError
from gristmill.tokenize.texts import flat_texts


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_slices_begin_at_zero(kind: pa.DataType) -> None:
    flat = flat_texts(pa.array(["skip", "é", "", "bc"], kind).slice(1))
    assert flat.offsets.tolist() == [0, 2, 2, 4]
    assert list(flat.strings()) == ["é", "", "bc"]


def test_arrow_buffers_are_not_copied() -> None:
    array = pa.array(["ab", "c"], pa.large_string())
    flat = flat_texts(array)
    assert np.shares_memory(flat.data, np.frombuffer(array.buffers()[2], np.uint8))


def test_chunks_are_joined() -> None:
    assert list(flat_texts(pa.chunked_array([["a"], ["b", "c"]])).strings()) == ["a", "b", "c"]


def test_null_is_empty() -> None:
    assert list(flat_texts(pa.array(["a", None])).strings()) == ["a", ""]


def test_only_empty_texts() -> None:
    assert list(flat_texts(["", ""]).strings()) == ["", ""]


def test_other_types_are_refused() -> None:
    with pytest.raises(ConfigError, match="not int64"):
        flat_texts(pa.array([1, 2]))


def test_lone_surrogates_name_their_row() -> None:
    with pytest.raises(SourceError, match="Row 1 of the batch is not valid Unicode"):
        flat_texts(["fine", "bad \ud800"])
