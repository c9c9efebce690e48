"""Sizes as people write them: `4GB`, `512 MiB`."""

from __future__ import annotations

from pathlib import Path

from gristmill.core.sizes import parse_size

CASES = (2_000, 100_000)


def seeds() -> list[bytes]:
    return [b"4GB", b"512MiB", b"1.5 GB", b"100", b"0", b"-1", b"nan", b"infGB", b"1e400", b"9" * 5_000, b""]


def attempt(data: bytes, folder: Path) -> None:
    assert parse_size(data.decode("utf-8", "replace"), "memory") >= 0
