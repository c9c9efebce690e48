"""The characters of near duplicates: what is a unit, and where they differ from the words of the rules."""

from __future__ import annotations

import unicodedata

import numpy as np

from gristmill.curate import characters as words
from gristmill.curate.dedup.characters import unit_table


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
