"""Hashes of texts: what a store keeps of each, and what decides which of them are equal."""

from __future__ import annotations

import itertools

import numpy as np
import xxhash

from gristmill.core.arrays import Ints
from gristmill.curate.documents import Documents


def content_hashes(documents: Documents) -> Ints:
    """What a store keeps of each text, and its split depends on: the low 64 bits of the xxh3-128 of its bytes."""
    view, offsets = memoryview(documents.data.data), documents.offsets.tolist()
    digest = xxhash.xxh3_128_digest
    digests = b"".join([digest(view[a:b]) for a, b in itertools.pairwise(offsets)])
    return np.ascontiguousarray(np.frombuffer(digests, ">i8")[1::2].astype(np.int64))


def text_digests(documents: Documents) -> tuple[Ints, Ints]:
    """128 bits of each text, in halves: they alone decide which texts are equal, and nobody can forge them."""
    from gristmill.core.kernels.blake2 import digests

    halves = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
    digests(documents.data, documents.offsets, *halves)
    return halves
