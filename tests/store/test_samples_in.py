"""Files of samples: whatever is wrong with one is told before a token of it is believed."""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard

from gristmill.core.arrays import Ints
from gristmill.core.errors import StoreError
from gristmill.store import samples_in
from gristmill.store.samples_in import Batch, SampleFile

SAMPLES = [b"one", b"", b"three", b"4444"]


def as_letters(data: bytes, edges: Ints) -> Batch:
    if b"!" in data:
        raise ValueError("a sample shouts")
    return np.frombuffer(data, np.uint8), np.diff(edges)


def bytes_of(samples: list[bytes], between: bytes = b"{}") -> bytes:
    edges = np.cumsum([4 * (len(samples) + 2) + len(between), *map(len, samples)]).astype("<u4")
    return len(samples).to_bytes(4, "little") + edges.tobytes() + between + b"".join(samples)


def file_of(path: Path, data: bytes) -> SampleFile:
    path.write_bytes(data)
    return SampleFile(path, "x", len(SAMPLES), len(bytes_of(SAMPLES)), None, None, {}, as_letters, has_config=True)


def read(file: SampleFile) -> list[bytes]:
    found: list[bytes] = []
    for tokens, lengths in file.batches():
        ends = np.cumsum(lengths)
        found += [tokens[end - length : end].tobytes() for end, length in zip(ends, lengths, strict=True)]
    return found


@pytest.mark.parametrize("batch", [1, 4, 1 << 20])
@pytest.mark.parametrize(
    ("packing", "pack"),
    [(None, bytes), ("zstd", zstandard.compress), ("gz", gzip.compress)],
    ids=["plain", "zstd", "gz"],
)
def test_samples_come_in_batches_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, packing: str | None, pack: type[bytes]
) -> None:
    monkeypatch.setattr(samples_in, "_BATCH_BYTES", batch)
    file = replace(file_of(tmp_path / "f", pack(bytes_of(SAMPLES))), packing=packing)
    assert read(file) == SAMPLES


@pytest.mark.parametrize(("packing", "pack"), [(None, bytes), ("zstd", zstandard.compress), ("gz", gzip.compress)])
def test_a_file_that_is_cut_anywhere_is_damage(tmp_path: Path, packing: str | None, pack: type[bytes]) -> None:
    whole = pack(bytes_of(SAMPLES))
    for end in range(len(whole)):
        file = replace(file_of(tmp_path / "f", whole[:end]), packing=packing)
        with pytest.raises(StoreError, match="f is damaged"):
            read(file)


@pytest.mark.parametrize("place", range(4 * (len(SAMPLES) + 2)))
def test_any_other_count_or_offset_is_damage_or_another_cut_of_the_same_bytes(tmp_path: Path, place: int) -> None:
    data = bytearray(bytes_of(SAMPLES))
    for bit in range(8):
        data[place] ^= 1 << bit
        with contextlib.suppress(StoreError):
            assert b"".join(read(file_of(tmp_path / "f", bytes(data)))) == b"".join(SAMPLES)
        data[place] ^= 1 << bit


def test_a_file_that_goes_on_is_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="goes on behind its"):
        read(file_of(tmp_path / "f", bytes_of(SAMPLES) + b"?"))
    with pytest.raises(StoreError, match="has 43 bytes, and 45 by the index"):
        read(replace(file_of(tmp_path / "f", bytes_of(SAMPLES) + b"?????"), packed=45))


def test_what_a_sample_should_not_hold_is_told_with_its_place(tmp_path: Path) -> None:
    data = bytes_of(SAMPLES).replace(b"three", b"thr!e")
    with pytest.raises(StoreError, match="f is damaged: a sample shouts, among samples 0 to 4"):
        read(file_of(tmp_path / "f", data))


@pytest.mark.parametrize(("sizes", "evenly"), [((4,), False), ((4, 4), True), ((4, 3), False), ((4, 4, 3), True),
                                               ((4, 4, 5), False), ((4, 3, 4), False)])  # fmt: skip
def test_samples_of_one_length_are_known_by_their_offsets(tmp_path: Path, sizes: tuple[int, ...], evenly: bool) -> None:
    data = bytes_of([bytes(size) for size in sizes])
    file = replace(file_of(tmp_path / "f", data), samples=len(sizes), size=len(data))
    assert file.is_cut_evenly() is evenly
