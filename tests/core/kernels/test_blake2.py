"""The compiled BLAKE2b is that of hashlib."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.kernels.blake2 import digests

SIZES = [*range(20), *(n + by for n in (128, 256, 1024) for by in (-9, -8, -1, 0, 1, 8))]


def digested(texts: list[bytes]) -> list[bytes]:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    halves = np.empty((2, len(texts)), np.int64)
    digests(np.frombuffer(b"".join(texts), np.uint8), offsets, *halves)
    return [pair.tobytes() for pair in np.ascontiguousarray(halves.T)]


def test_digests_are_hashlibs_around_every_edge_of_words_and_blocks() -> None:
    texts = [bytes(i % 251 for i in range(size)) for size in SIZES]
    assert digested(texts) == [hashlib.blake2b(text, digest_size=16).digest() for text in texts]


@settings(deadline=None)  # the first case compiles
@given(st.lists(st.binary(max_size=300), max_size=6))
def test_digests_do_not_depend_on_the_texts_around(texts: list[bytes]) -> None:
    assert digested(texts) == [hashlib.blake2b(text, digest_size=16).digest() for text in texts]
