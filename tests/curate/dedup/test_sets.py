"""Shingles, signatures and similarities against their definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.curate.dedup.near import Near, unit_table
from gristmill.curate.dedup.sets import FetchedSets, Sets, open_sets, set_rows, sets_schema, shingle_sets
from gristmill.places.door import place_at
from gristmill.places.local import Local
from gristmill.places.memory import view


def _mixed(x: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = ((x ^ (x >> shift)) * factor) & MASK
    return x ^ (x >> 31)


# Letters with and without case, marks, digits, blanks, and scripts without spaces.
TEXT = st.text(st.sampled_from("aAbB1é İßΣд, .-\n\u0301漢字かなไทย\u0e31\U00020000😀\x00"), max_size=40)


@given(texts=st.lists(TEXT, max_size=5), ngram=st.integers(1, 6), unit=st.sampled_from(["word", "char"]))
@settings(max_examples=300, deadline=None)  # the first case loads Numba
def test_sets_have_a_hash_for_each_distinct_shingle(
    make_batch: Any, shingles: Any, texts: list[str], ngram: int, unit: Any
) -> None:
    hashes, ends = shingle_sets(make_batch(texts), Near(ngram=ngram, unit=unit))
    for i, text in enumerate(texts):
        found, expected = hashes[ends[i] : ends[i + 1]], shingles(text, ngram, unit)
        assert len(found) == len(expected) and np.all(found[1:] > found[:-1])
        # Equal shingles of different texts have equal hashes: unions and intersections have the right sizes.
        for other in range(i):
            shared = np.intersect1d(found, hashes[ends[other] : ends[other + 1]])
            assert len(shared) == len(expected & shingles(texts[other], ngram, unit))


MASK = (1 << 64) - 1


def _siphash(word: str) -> int:
    """SipHash-2-4 with the key 0 of a word's letters, three a block."""
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def turned(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = (turned(v[0], 32) + v[3]) & MASK
            v[2] = (v[2] + v[1]) & MASK
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    letters = [int(unit_table()[ord(letter)]) for letter in word]
    blocks = [sum(x << 20 * i for i, x in enumerate(letters[at : at + 3])) for at in range(0, len(letters), 3)]
    if len(letters) % 3 == 0:
        blocks.append(0)
    blocks[-1] |= len(letters) << 40
    for block in blocks:
        v[3] ^= block
        rounds(2)
        v[0] ^= block
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@settings(deadline=None)
@given(words=st.lists(st.text(st.sampled_from("abcäßЖ٣1"), min_size=1, max_size=12), min_size=1, unique=True))
def test_words_of_the_sets_that_decide_are_hashed_by_siphash(make_batch: Any, words: list[str]) -> None:
    hashes, _ = shingle_sets(make_batch([" ".join(words).upper()]), Near(ngram=1))
    lowered = {"".join(letter.upper().lower() for letter in word) for word in words}
    assert sorted(hashes.tolist()) == sorted(_mixed(_siphash(word) | 1) for word in lowered)


def test_sets_are_found_in_their_batches(make_batch: Any, texts_of: Any) -> None:
    from gristmill.curate.dedup.pair_kernels import similarities

    documents = make_batch(texts_of(30), unit=3)
    wanted = np.asarray(documents.batch["doc"])[::2]
    batches = [documents.batch.slice(i, 7) for i in range(0, 30, 7)]
    sets = Sets([rows for batch in batches for rows in set_rows(batch, wanted, wanted + 5, Near())])
    addresses, sizes = sets.locate(wanted + 5)
    hashes, ends = shingle_sets(documents, Near())
    assert sizes.tolist() == np.diff(ends)[::2].tolist()
    out = np.empty(len(wanted))
    same = np.stack([addresses, addresses])
    similarities(same, np.stack([sizes, sizes]), 0.5, out)
    assert np.all(out == 1.0) and len(hashes)


def test_sets_of_a_file_that_cannot_be_mapped_are_those_of_a_map(
    make_batch: Any, texts_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = make_batch([*texts_of(30), "one"], unit=3)  # a single word has no shingle of five
    wanted = np.asarray(documents.batch["doc"])
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, sets_schema()) as writer:
        for i in range(0, 31, 7):
            for rows in set_rows(documents.batch.slice(i, 7), wanted, wanted, Near()):
                writer.write_batch(rows)
    docs, found = np.concatenate([wanted[::-3], wanted[:2], wanted[-1:]]), []
    for maps in (True, False):
        monkeypatch.setattr(Local, "maps", maps)
        sets = open_sets(place_at(tmp_path / "a.arrow"))
        places = zip(*(column.tolist() for column in sets.locate(docs)), strict=True)
        found.append([view(address, "<u8", size).tolist() for address, size in places if size])
    assert found[0] == found[1] and len(found[0]) >= 12
    assert isinstance(sets, FetchedSets) and sets.locate(docs[:0])[0].tolist() == []
