"""Hashes of texts."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gristmill.curate.digests import content_hashes, text_digests
from gristmill.curate.documents import Documents


def _documents(texts: Sequence[str]) -> Documents:
    return Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def test_what_a_store_keeps_is_the_low_half_of_xxh3_128() -> None:
    texts = ["", "a", "größer", "x" * 1000]
    for text, low in zip(texts, content_hashes(_documents(texts)), strict=True):
        assert int(low) % 2**64 == xxhash.xxh3_128_intdigest(text.encode()) % 2**64


def test_texts_are_compared_by_a_hash_that_nobody_can_forge() -> None:
    texts = [*("ä" * n for n in range(300)), "x" * 1000, "y" * 12_345]
    for text, *halves in zip(texts, *text_digests(_documents(texts)), strict=True):
        assert struct.pack("<qq", *halves) == hashlib.blake2b(text.encode(), digest_size=16).digest()


@given(texts=st.lists(st.text(max_size=6), max_size=20), cut=st.integers(0, 20))
def test_hash_does_not_depend_on_the_batch(texts: list[str], cut: int) -> None:
    whole = np.stack(text_digests(_documents(texts)))
    parts = [np.stack(text_digests(_documents(part))) for part in (texts[:cut], texts[cut:])]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))
