"""gzip, bz2, xz and zstd, whole files and several members or frames, with and without a seek table."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import zstandard
from _sources import raise_if, read_in_all_ways

from gristmill.sources.base import Format
from harness import mutate as change_bytes

CASES = (300, 100_000)
LINES = b"".join(b"line %d of a text\n" % (i * i) for i in range(60))
BY_LINE = Format(documents="line")
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def _seekable(sizes: bool) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=sizes, write_checksum=not sizes)
    texts = [LINES[at : at + 150] for at in range(0, len(LINES), 150)]
    frames = [packer.compress(text) for text in texts]
    table = b"".join(struct.pack("<II", len(frame), len(text)) for frame, text in zip(frames, texts, strict=True))
    footer = struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table) + len(footer)) + table + footer


def seeds() -> list[bytes]:
    """The first byte is the place of the suffix."""
    half = LINES[:500]
    files: dict[int, list[bytes]] = {
        0: [gzip.compress(LINES), gzip.compress(half) + gzip.compress(half)],
        1: [bz2.compress(LINES), bz2.compress(half) + bz2.compress(half)],
        2: [lzma.compress(LINES), lzma.compress(half) + bytes(8), lzma.compress(LINES, preset=0)],
        3: [zstandard.compress(LINES), _seekable(True), _seekable(False), zstandard.compress(half) * 2],
    }
    return [bytes([place]) + packed for place, several in files.items() for packed in several]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    first = rng.choice(seeds)
    if first[0] == 3 and first[-4:] == b"\xb1\xea\x92\x8f" and rng.random() < 0.5:  # change the table alone
        data = bytearray(first)
        at = len(data) - rng.randrange(1, 90)
        data[at] = (data[at] + rng.choice((1, -1, 19, 128))) % 256
        return bytes(data)
    return first[:1] + change_bytes(rng, [first[1:], *(seed[1:] for seed in seeds if seed[0] == first[0])])


def attempt(data: bytes, folder: Path) -> None:
    suffix, packed = SUFFIXES[data[0] % 4 if data else 0], data[1:]
    rows, skipped = read_in_all_ways(packed, folder / f"a.txt{suffix}", BY_LINE, cuts=(1, 120))
    if not skipped and (unpacked := _unpacked(packed, suffix)) is not None:
        lines = [line.removesuffix(b"\r") for line in unpacked.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [row["text"].encode() for row in rows] == [line for line in lines if line.strip(b" \t\n\r\x0b\x0c")]
    raise_if(skipped)


def _unpacked(packed: bytes, suffix: str) -> bytes | None:
    """What Python's own unpackers make of the bytes; None where they are stricter than we are (zeros after xz)."""
    try:
        if suffix == ".zst":
            return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True).read()
        return {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}[suffix](packed)
    except (EOFError, OSError, lzma.LZMAError, zstandard.ZstdError):
        return None
