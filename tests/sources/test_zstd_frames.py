"""zstd's seek tables: a table that does not fit its frames is told, whether the file is cut by it or not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, Mishaps

Read = Callable[..., list[dict[str, Any]]]
Sizes = list[list[int]]

BY_LINE = Format(documents="line")
LINES = [f"line {i} of a text".encode() for i in range(300)]


def seekable(change: Callable[[Sizes], None] | None = None, size_in_frame: bool = True) -> bytes:
    """Ten frames and a table of their (packed, unpacked) sizes, which `change` may change."""
    packer = zstandard.ZstdCompressor(write_content_size=size_in_frame)
    texts = [b"".join(line + b"\n" for line in LINES[at : at + 30]) for at in range(0, 300, 30)]
    frames = [packer.compress(text) for text in texts]
    sizes = [[len(frame), len(text)] for frame, text in zip(frames, texts, strict=True)]
    if change:
        change(sizes)
    table = b"".join(struct.pack("<II", *pair) for pair in sizes)
    footer = struct.pack("<IBI", len(sizes), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table) + len(footer)) + table + footer


def add(frame: int, packed: int, unpacked: int) -> Callable[[Sizes], None]:
    def change(sizes: Sizes) -> None:
        sizes[frame][0] += packed
        sizes[frame][1] += unpacked

    return change


def both(*changes: Callable[[Sizes], None]) -> Callable[[Sizes], None]:
    return lambda sizes: [change(sizes) for change in changes] and None


WRONG: dict[str, Callable[[Sizes], None]] = {
    "too long": add(3, 0, 7),
    "too short": add(3, 0, -7),
    "no text": lambda sizes: sizes[0].__setitem__(1, 0),
    "moved text": both(add(2, 0, 19), add(3, 0, -19)),
    "moved frames": both(add(4, 5, 0), add(5, -5, 0)),
    "swapped": lambda sizes: sizes.insert(2, sizes.pop(6)),
    "sizes that do not add up": add(9, 3, 0),
}


@pytest.fixture(params=[True, False], ids=["sizes in frames", "no sizes in frames"])
def size_in_frame(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("unit_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("case", WRONG)
def test_a_table_that_does_not_fit_its_frames_is_an_error(
    tmp_path: Path, read: Read, case: str, unit_bytes: int, size_in_frame: bool
) -> None:
    (tmp_path / "a.txt.zst").write_bytes(seekable(WRONG[case], size_in_frame))
    with pytest.raises(SourceError, match=r"(seek table of \S+a.txt.zst )|(a.txt.zst is damaged or cut off)"):
        read(tmp_path / "a.txt.zst", BY_LINE, unit_bytes=unit_bytes)


@pytest.mark.parametrize("unit_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("case", WRONG)
def test_where_errors_are_skipped_no_line_comes_twice_or_in_pieces(
    tmp_path: Path, read: Read, case: str, unit_bytes: int, size_in_frame: bool
) -> None:
    (tmp_path / "a.txt.zst").write_bytes(seekable(WRONG[case], size_in_frame))
    mishaps = Mishaps("skip")
    found = [row["text"].encode() for row in read(tmp_path / "a.txt.zst", BY_LINE, mishaps, unit_bytes)]
    assert mishaps.skipped >= 1 and len(set(found)) == len(found) and set(found) <= set(LINES)


@pytest.mark.parametrize("unit_bytes", [1, 200, 1 << 20])
def test_a_right_table_changes_nothing(tmp_path: Path, read: Read, unit_bytes: int, size_in_frame: bool) -> None:
    (tmp_path / "a.txt.zst").write_bytes(seekable(size_in_frame=size_in_frame))
    found = [row["text"].encode() for row in read(tmp_path / "a.txt.zst", BY_LINE, unit_bytes=unit_bytes)]
    assert found == LINES
