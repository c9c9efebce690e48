"""Lines of JSON, and changes of them that keep more of their shape than random bytes do."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from harness import mutate as change_bytes

_PIECES = [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b" ", b"\t", b"\r", b"\n", b"null", b"true", b"false", b"-",
           b"0", b"1e5", b"1.50", b"-0", b"0.5E-7", b"NaN", b"Infinity", b'"text"', b'"id"', b'"n"', b'"\\u00e9"',
           b'"\\ud83d\\ude00"', b"\\ud800", b"\\/", b"\\x", b"\x00", b"\x1f", b"\x7f", b"\xc3\xa9", b"\xff",
           b"9" * 5000, b"[" * 50]  # fmt: skip


def lines() -> list[bytes]:
    lines = [{"text": "a\n\t\\\"é😀", "id": 7, "n": [1, {"b": None}]}, {"id": "x", "n": 1.5, "text": ""}, {"n": True},
             {"text": "long " * 40, "id": None, "z": {"text": "inner"}}]  # fmt: skip
    spelt = [json.dumps(line).encode() for line in lines] + [json.dumps(lines[0], ensure_ascii=False).encode()]
    good = b"\n".join(b'{"id": "d%d", "text": "a", "n": %d, "z": {"text": "b"}}' % (i, i) for i in range(3))
    odd = [b'{"te\\u0078t": "a", "id": 1e5}', b'{"text":"a","text":"b","id":1,"id":null}']
    return [good, b"\n".join(spelt) + b"\n", *spelt, *odd]


def change_json(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(change_bytes(rng, seeds) if rng.random() < 0.6 else rng.choice(seeds))
    for _ in range(rng.randrange(4)):
        at = rng.randint(0, len(data))
        data[at : at + rng.randrange(3)] = rng.choice(_PIECES)
    return bytes(data)
