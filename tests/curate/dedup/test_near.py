"""Signatures of near duplicates against their definition, and the options that shape them."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.curate import characters as words
from gristmill.curate.dedup.near import Near, permutations, sign, unit_table

MASK = (1 << 64) - 1


def _mixed(x: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = ((x ^ (x >> shift)) * factor) & MASK
    return x ^ (x >> 31)


def _fast(unit: str) -> int:
    """The hash of a word or letter by which candidates are found."""
    hashed = 0x9E3779B97F4A7C15
    for letter in unit:
        hashed = ((hashed ^ int(unit_table()[ord(letter)])) * 0x9FB21C651E98DF25) & MASK
    return 0xA0761D6478BD642F if unit == " " else _mixed(hashed) | 1


# Letters with and without case, marks, digits, blanks, and scripts without spaces.
TEXT = st.text(st.sampled_from("aAbB1é İßΣд, .-\n\u0301漢字かなไทย\u0e31\U00020000😀\x00"), max_size=40)


def _rolled(shingle: tuple[str, ...]) -> int:
    rolling = 0
    for unit in shingle:
        rolling = (rolling * 0xD6E8FEB86659FD93 + _fast(unit)) & MASK
    return _mixed(rolling)


GOLDEN_00 = [5286956888480095605, -7601749825501030459, 2137015872236908800, -7594989830735622134]


GOLDEN_15 = [-4791992873824832429, 571548939990146575, -7340548591952134554, -906055817388173149]


GOLDEN_CHARACTERS = [-5128477665825941842, 1348260804348608417, 6820794620935378313, 1952095497757268071]


@settings(deadline=None)
@given(texts=st.lists(TEXT, max_size=5), unit=st.sampled_from(["word", "char"]))
def test_keys_are_of_the_minimum_over_the_set(make_batch: Any, shingles: Any, texts: list[str], unit: Any) -> None:
    options = Near(permutations=8, bands=8, rows=1, ngram=2, unit=unit)
    documents = make_batch(texts)
    signed = sign(documents.batch, options, {})
    sets = [{_rolled(shingle) for shingle in shingles(text, 2, unit)} for text in texts]
    keys, odds = permutations(8, 0).astype(np.uint64)
    minima = {}
    for row, doc in enumerate(signed["doc"].to_pylist()):
        low = np.array(sorted(sets[doc]), np.uint64) & np.uint64(0xFFFFFFFF)
        for band in range(8):
            least = int((((low ^ keys[band]) * odds[band]) & np.uint64(0xFFFFFFFF)).min())
            # Equal minima give equal keys, different ones different keys.
            key = signed[f"key_{band:02d}"][row].as_py()
            assert minima.setdefault((band, least), key) == key
    assert len(set(minima.values())) == len(minima)
    assert signed["doc"].to_pylist() == [i for i in range(len(texts)) if sets[i]]


def test_signatures_do_not_depend_on_the_batch(make_batch: Any, texts_of: Any) -> None:
    texts = [*texts_of(20), "", "short", " ".join(str(i) for i in range(10_000))]
    whole = sign(make_batch(texts).batch, Near(), {}).to_pydict()
    for i, row in enumerate(zip(*list(whole.values())[1:], strict=True)):
        text = texts[whole["doc"][i]]
        alone = sign(make_batch([text]).batch, Near(), {}).to_pydict()
        assert list(row) == [column[0] for column in list(alone.values())[1:]]


def test_minima_agree_as_often_as_the_similarity_says(make_batch: Any, jaccard: Any) -> None:
    words = [f"w{i}" for i in range(2000)]
    left, right = " ".join(words), " ".join(words[:1400])
    rows = sign(make_batch([left, right]).batch, Near(permutations=2048, bands=2048, rows=1), {})
    agree = np.mean([rows[name][0] == rows[name][1] for name in rows.schema.names[2:]])
    # 2,048 permutations: a standard error of 0.010.
    assert abs(agree - jaccard(left, right)) < 0.035


def test_golden_keys(make_batch: Any) -> None:
    """Saved indexes hold these numbers: they may only change together with index.VERSION."""
    texts = ["The quick brown fox jumps over the lazy dog.", "das ist kurz", "吾輩は猫である。名前はまだ無い。", "Ünï1"]
    rows = sign(make_batch(texts).batch, Near(), {})
    assert rows["key_00"].to_pylist() == GOLDEN_00
    assert rows["key_15"].to_pylist() == GOLDEN_15
    by_characters = sign(make_batch(texts).batch, Near(unit="char", ngram=3, seed=7, permutations=64), {})
    assert by_characters["key_00"].to_pylist() == GOLDEN_CHARACTERS


def test_permutations_come_from_the_seed() -> None:
    table = permutations(4, 3)
    assert table[0, 2] == derive_key(3, "minhash key", 2) >> 32
    assert np.all(table[1] % 2 == 1)
    assert not np.array_equal(table, permutations(4, 4))


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (Near(), (16, 8)),
        (Near(threshold=0.95), (8, 16)),
        (Near(threshold=0.5), (64, 2)),
        (Near(threshold=1.0), (1, 128)),
        (Near(bands=9, rows=13), (9, 13)),
        (Near(bands=20), (20, 6)),
        (Near(rows=16), (8, 16)),
    ],
)
def test_bands_follow_the_threshold(options: Near, shape: tuple[int, int]) -> None:
    assert options.shape == shape


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0}, {"threshold": 1.1}, {"threshold": 0.01}, {"unit": "line"}, {"keep": "last"}, {"ngram": 0},
        {"permutations": 0}, {"max_bucket": 1}, {"bands": 0}, {"bands": 20, "rows": 7},
    ],
)  # fmt: skip
def test_options_are_checked(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="near"):
        Near(**wrong)


def test_letters_marks_and_numbers_make_words_and_all_else_separates() -> None:
    for code in [*range(0x3000), 0xFF21, 0x10400, 0x1F600, 0xE0100, 0x10FFFF]:
        letter = unit_table()[code]
        assert (letter > 0) == (unicodedata.category(chr(code))[0] in "LMN" and code < 0x40000)
        assert not letter or letter // 2 == ord(chr(code).lower()[0])


def test_scripts_without_spaces_are_those_of_the_rules_words_but_the_rarest() -> None:
    """Tai, Yi, Tangut and Nushu are told apart by the rules only; marks and voicing marks are units here only."""
    single = words.characters() & words.KIND == words.SINGLE
    alone = unit_table()[: len(single)] & 1 == 1
    assert {unicodedata.name(chr(code), "TANGUT").split()[0] for code in np.flatnonzero(single & ~alone)} == {
        "TAI", "NEW", "YI", "TANGUT", "NUSHU", "OLD", "KHITAN"}  # fmt: skip
    assert {unicodedata.category(chr(code)) for code in np.flatnonzero(alone & ~single)} >= {"Mn", "Nd", "Nl"}
