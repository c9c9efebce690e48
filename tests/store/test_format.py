from __future__ import annotations

import io

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.hashing import hash_ids
from gristmill.store import format as layout


@pytest.mark.parametrize(("vocab", "dtype"), [(257, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_the_dtype_follows_the_vocabulary(vocab: int, dtype: str) -> None:
    assert layout.dtype_for(vocab) == dtype


@pytest.mark.parametrize("dtype", ["float32", ">u2", "bool"])
def test_a_dtype_that_holds_no_token_ids_is_refused(dtype: str) -> None:
    with pytest.raises(ConfigError, match="little-endian integers"):
        layout.check_dtype(dtype)


def test_a_misspelt_dtype_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'uint16'"):
        layout.check_dtype("unit16")


def idx_of(lengths: list[int], dtype: str = "uint16") -> bytes:
    file = io.BytesIO()
    layout.write_idx(file, np.array(lengths, dtype=np.int64), dtype)
    return file.getvalue()


def test_an_index_is_what_megatron_writes_byte_for_byte() -> None:
    head = b"MMIDIDX\0\0" + b"\1" + bytes(7) + b"\x08" + b"\2" + bytes(7) + b"\3" + bytes(7)
    arrays = (
        np.array([3, 2], "<i4").tobytes() + np.array([0, 6], "<i8").tobytes() + np.array([0, 1, 2], "<i8").tobytes()
    )
    assert idx_of([3, 2]) == head + arrays


def test_uint32_tokens_carry_the_code_of_int32_since_megatron_has_none_for_them() -> None:
    header = layout.read_idx_header(idx_of([1], "uint32"), "x.idx")
    assert header.dtype == "int32"


def test_the_header_says_where_the_arrays_are() -> None:
    data = idx_of([5, 1, 7])
    header = layout.read_idx_header(data, "x.idx")
    assert (header.sequences, header.documents, header.size) == (3, 3, len(data))
    assert np.frombuffer(data, "<i8", 3, header.pointers_at).tolist() == [0, 10, 12]


def test_a_document_over_two_billion_tokens_is_several_sequences_of_one_document() -> None:
    long = layout.MAX_SEQUENCE * 2 + 5
    data = idx_of([7, long, 1], "uint16")
    header = layout.read_idx_header(data, "x.idx")
    assert (header.sequences, header.documents) == (5, 3)
    lengths = np.frombuffer(data, "<i4", 5, layout.IDX_HEADER).tolist()
    assert lengths == [7, layout.MAX_SEQUENCE, layout.MAX_SEQUENCE, 5, 1]
    assert np.frombuffer(data, "<i8", 4, header.documents_at).tolist() == [0, 1, 4, 5]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"X" + data[1:], "magic bytes"),
        (lambda data: data[:20], "magic bytes"),
        (lambda data: data[:9] + b"\2" + data[10:], "version 2"),
        (lambda data: data[:17] + b"\7" + data[18:], "dtype code 7"),
        (lambda data: data[:26] + bytes(8) + data[34:], "no document marks"),
    ],
)
def test_what_is_no_index_is_named(damage: object, message: str) -> None:
    with pytest.raises(StoreError, match=f"some.idx.*{message}"):
        layout.read_idx_header(damage(idx_of([3])), "some.idx")  # type: ignore[operator]


def test_block_sums_have_one_value_a_mebibyte_and_see_every_byte() -> None:
    tokens = np.arange(3 << 19, dtype=np.uint16)
    sums = layout.block_sums(tokens)
    assert len(sums) == 3
    tokens[-1] ^= 1
    assert (layout.block_sums(tokens) != sums).tolist() == [False, False, True]


def test_ids_are_sorted_by_hash_with_their_rows() -> None:
    hashes = hash_ids(["c", "a", "b"])
    file = io.BytesIO()
    layout.write_ids(file, hashes)
    data = file.getvalue()
    assert data[:8] == layout.IDS_MAGIC
    known, rows = np.frombuffer(data, "<u8", 3, 16), np.frombuffer(data, "<u4", 3, 40)
    assert (np.diff(known.astype(object)) > 0).all()
    assert (hashes[rows] == known).all()
