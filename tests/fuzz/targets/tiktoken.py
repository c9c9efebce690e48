"""`.tiktoken` files: base64 tokens and ranks, line by line."""

from __future__ import annotations

import base64
from pathlib import Path

from gristmill.tokenize.tokenizer import load_tokenizer

CASES = (200, 10_000)
SECONDS = 20.0


def _lines(tokens: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def seeds() -> list[bytes]:
    single = [bytes([byte]) for byte in range(256)]
    good = _lines([*single, b"he", b"hel", b"lo", b"hello", b" w"])
    more = [
        good + b"AAAA " + rank + b"\n" for rank in (b"9" * 20, b"-1", b"1_0", b"", b"4294967295", b"13276785", b"50256")
    ]
    return [good, _lines(single), b"", b"\xff" * 100, _lines([*single, b"xyz"]), good.replace(b" 3\n", b" 4\n"), *more]


def attempt(data: bytes, folder: Path) -> None:
    path = folder / "r50k_base.tiktoken"
    path.write_bytes(data)
    tokenizer = load_tokenizer(str(path))
    ids, _ = tokenizer.encode_batch(["hello world, hell"])
    assert tokenizer.decode(ids) == "hello world, hell"
