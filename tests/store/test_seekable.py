"""The bytes of a `.bin.zst`, as zstd's seekable format defines them."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import StoreError
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.seekable import SeekableWriter, decompress, frame_offsets


def packed(tokens: np.ndarray, cuts: tuple[int, ...] = ()) -> bytes:
    file = io.BytesIO()
    writer = SeekableWriter(file, tokens.itemsize)
    for part in np.split(tokens, sorted(cuts)):
        writer.write(part.data)
    assert writer.finish() == (len(file.getvalue()), xxhash.xxh3_128_hexdigest(file.getvalue()))
    return file.getvalue()


def some_tokens(count: int, dtype: str = "uint16") -> np.ndarray:
    return (np.random.default_rng(count).zipf(1.3, count) % 5000).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("count", [1, FRAME_TOKENS - 1, FRAME_TOKENS, FRAME_TOKENS + 1, 3 * FRAME_TOKENS, 200_000])
def test_the_file_is_what_the_specification_says(count: int, dtype: str) -> None:
    tokens = some_tokens(count, dtype)
    data = packed(tokens)
    frames, flags, magic = struct.unpack("<IBI", data[-9:])
    assert (frames, flags, magic) == (-(-count // FRAME_TOKENS), 0, 0x8F92EAB1)
    table = struct.unpack(f"<II{2 * frames}I", data[-17 - 8 * frames : -9])
    assert table[:2] == (0x184D2A5E, 8 * frames + 9)
    at, found = 0, b""
    for compressed, size in zip(table[2::2], table[3::2], strict=True):
        parameters = zstandard.get_frame_parameters(data[at : at + compressed])
        assert parameters.content_size == size and parameters.has_checksum
        found += zstandard.ZstdDecompressor().decompress(data[at : at + compressed])
        at += compressed
    assert found == tokens.tobytes()
    assert at == len(data) - 17 - 8 * frames


def test_any_zstd_reader_gives_the_plain_tokens() -> None:
    tokens = some_tokens(200_000)
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed(tokens)), read_across_frames=True)
    assert reader.read() == tokens.tobytes()


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 150_000), max_size=8))
def test_equal_tokens_give_equal_bytes_however_they_arrive(cuts: list[int]) -> None:
    tokens = some_tokens(150_000)
    assert packed(tokens, tuple(cuts)) == packed(tokens)


def lie(change: Callable[[bytearray], None]) -> bytes:
    data = bytearray(packed(some_tokens(200_000)))
    change(data)
    return bytes(data)


def offsets_of(data: bytes, tokens: int, name: str) -> np.ndarray:
    return frame_offsets(lambda at, size: data[at : at + size], len(data), tokens, 2, name)


def cut_off(data: bytearray) -> None:
    del data[-1:]


def cut_to_nothing(data: bytearray) -> None:
    del data[5:]


def another_count(data: bytearray) -> None:
    data[-9] ^= 1


def other_flags(data: bytearray) -> None:
    data[-5] |= 0x80


def other_sizes(data: bytearray) -> None:
    data[-17] ^= 1  # the compressed size of the last frame


def other_contents(data: bytearray) -> None:
    data[-13] ^= 1  # its decompressed size


def no_head(data: bytearray) -> None:
    data[-17 - 8 * 4] ^= 1


@pytest.mark.parametrize(
    "change", [cut_off, cut_to_nothing, another_count, other_flags, other_sizes, other_contents, no_head]
)
def test_a_seek_table_that_does_not_fit_is_refused_by_name(change: Callable[[bytearray], None]) -> None:
    with pytest.raises(StoreError, match=r"Shard x\.bin\.zst .*make the store again"):
        offsets_of(lie(change), 200_000, "Shard x.bin.zst")


def test_the_table_of_a_file_with_other_tokens_than_expected_is_refused() -> None:
    with pytest.raises(StoreError, match="does not describe its frames"):
        offsets_of(packed(some_tokens(200_000)), 200_001, "Shard x")


@settings(max_examples=150, deadline=None)
@given(where=st.floats(0, 1), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_frame_never_gives_other_tokens(where: float, bit: int) -> None:
    tokens = some_tokens(3000)
    data = bytearray(packed(tokens))
    end = int(offsets_of(bytes(data), 3000, "x")[-1])
    data[int(where * (end - 1))] ^= 1 << bit
    out = np.empty(6000, np.uint8)
    try:
        decompress(bytes(data[:end]), out, "Frame 0 of shard x")
    except StoreError:
        return
    assert out.tobytes() == tokens.tobytes()


def test_a_frame_of_another_size_is_refused() -> None:
    frame = zstandard.compress(b"abc")
    with pytest.raises(StoreError, match="holds 3 bytes, 4 were expected"):
        decompress(frame, np.empty(4, np.uint8), "Frame 0")
    with pytest.raises(StoreError, match="holds 3 bytes, 2 were expected"):
        decompress(frame, np.empty(2, np.uint8), "Frame 0")


def test_a_cut_frame_is_refused() -> None:
    frame = zstandard.compress(bytes(1000) + b"the end" * 100)
    with pytest.raises(StoreError, match="Frame 0"):
        decompress(frame[:-3], np.empty(1700, np.uint8), "Frame 0")
