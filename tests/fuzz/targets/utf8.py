"""The gate before compiled code: what it lets pass is UTF-8 as Python knows it, to the byte."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from gristmill.sources.lines import is_utf8
from harness import mutate as change_bytes

CASES = (5_000, 250_000)
_EDGES = (0x00, 0x22, 0x7F, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3,
          0xF4, 0xF5, 0xF8, 0xFE, 0xFF, 0x8F, 0x90, 0x9F, 0xA0)  # fmt: skip


def seeds() -> list[bytes]:
    return ["Grüße, 世界, हिन्दी, 😀, \u0301\ufeff\U0010ffff".encode(), b"ascii " * 20, b"", b"\xed\xa0\x80",
            b"\xc0\x80", b"\xf4\x90\x80\x80", "é".encode() * 33, b"x" * 63 + b"\xe2\x82"]  # fmt: skip


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.5:
        return change_bytes(rng, seeds)
    head = bytes(rng.randrange(32, 127) for _ in range(rng.randrange(70)))
    return head + bytes(rng.choice(_EDGES) for _ in range(rng.randrange(1, 8))) + head[: rng.randrange(9)]


def attempt(data: bytes, folder: Path) -> None:
    try:
        data.decode("utf-8")
        fine = True
    except UnicodeDecodeError:
        fine = False
    assert is_utf8(data) == fine
