"""Headers of `.npy` files."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gristmill.store.opening import open_store
from harness import mutate as change_bytes

CASES = (400, 100_000)
WORDS = (
    b"<u2", b"|u1", b"<i8", b">u2", b"<f4", b"|O", b"<U3", b"<m8[s]", b"1/3", b"(", b")", b"[", b"{", b"}", b"'", b"L",
    b"True", b"None", b"-1", b"1e9", b"9" * 30, b"0x10", b"# ", b"\n", b"\0", b"lambda: 0", b"(5,)", b"shape", b"descr",
    b",", b"'" * 3, b"b'", b"f'{", b"*" * 9, b"\\",
)  # fmt: skip


def _npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def seeds() -> list[bytes]:
    good = np.arange(12, dtype=np.uint16)
    whole = _npy(good)
    texts = (b"{'descr': '<u2', 'fortran_order': False, 'shape': ('(((5,)", b"{" * 100, b"[" * 9_000)
    made = [b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(20) for text in texts]
    return [whole, _npy(good.astype(np.uint32).reshape(3, 4)), _npy(good, (2, 0)), _npy(good, (3, 0)),
            _npy(np.asfortranarray(good.reshape(3, 4))), _npy(np.zeros(0, np.uint16)),
            whole[:6] + b"\xda" + whole[7:], _npy(good, (3, 0)).replace(b"  ", b"\xca ", 1),
            whole.replace(b"(12,)", b"(-1,)"), whole.replace(b"'<u2'", b"'1/3'"), *made]  # fmt: skip


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(change_bytes(rng, seeds)) if rng.random() < 0.5 else bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 2))):
        at = rng.randint(8, min(128, max(8, len(data))))
        data[at : at + rng.choice((0, 1, 3))] = rng.choice(WORDS)
    return bytes(data)


def attempt(data: bytes, folder: Path) -> None:
    path = folder / "tokens.npy"
    path.write_bytes(data)
    if not data.startswith(b"\x93NUMPY"):
        open_store(path)  # as any file without a header
        return
    store = open_store(path)
    tokens = store.tokens(0, store.num_tokens)
    assert np.array_equal(tokens, np.load(path).ravel())
