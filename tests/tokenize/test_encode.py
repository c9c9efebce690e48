from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.tokenize import Tokenizer, encode_batch
from gristmill.tokenize.encode import append_eos


def test_text_becomes_tokens_in_its_place(gpt2: Tokenizer) -> None:
    batch = pa.record_batch({"id": ["a", "b"], "text": ["Hello world", "Hello"], "n": [1, 2]})
    encoded = encode_batch(batch, gpt2)
    assert encoded.schema.names == ["id", "tokens", "n"]
    assert encoded.column("tokens").to_pylist() == [[15496, 995, 50256], [15496, 50256]]
    assert encoded.column("id").to_pylist() == ["a", "b"]


def test_tokens_are_large_lists_of_the_smallest_type(gpt2: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["a"]}), gpt2)
    assert encoded.schema.field("tokens").type == pa.large_list(pa.uint16())


def test_empty_documents_have_no_eos(byte: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["", "a", None, ""]}), byte)
    assert encoded.column("tokens").to_pylist() == [[], [97, 256], [], []]


def test_batches_without_rows(byte: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": pa.array([], pa.string())}), byte)
    assert encoded.num_rows == 0


def test_a_slice_of_a_batch(byte: Tokenizer) -> None:
    batch = pa.record_batch({"text": pa.array(["x", "ab", "c", "y"], pa.large_string())}).slice(1, 2)
    assert encode_batch(batch, byte).column("tokens").to_pylist() == [[97, 98, 256], [99, 256]]


def test_special_text_makes_no_boundary(gpt2: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["a<|endoftext|>b"]}), gpt2)
    assert encoded.column("tokens").to_pylist()[0].count(gpt2.eos) == 1


def test_a_batch_without_text(byte: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="no column 'text'"):
        encode_batch(pa.record_batch({"txt": ["a"]}), byte)


@given(st.lists(st.lists(st.integers(0, 255), max_size=5), max_size=8))
def test_append_eos_is_the_obvious_loop(documents: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    ids, moved = append_eos(np.array(list(chain(*documents)), np.uint16), offsets, 256)
    expected = [[*document, 256] if document else [] for document in documents]
    assert ids.dtype == np.uint16
    assert [ids[a:b].tolist() for a, b in pairwise(moved)] == expected
