"""What cleaning does with each character, against Unicode's own words for it."""

from __future__ import annotations

import unicodedata

from gristmill.curate.clean_table import BLANK, BREAK, CHANGES, RANK, REMOVED, REPLACED, make_pairs, make_table


def codes(mark: int, **steps: bool) -> set[int]:
    asked = {"control": False, "line_ends": False, "whitespace": False, **steps}
    return {code for code, marks in enumerate(make_table(None, **asked).tolist()) if marks & mark}


def test_only_what_is_asked_for_is_marked() -> None:
    assert not make_table(None, False, False, False).any()
    assert codes(REPLACED, line_ends=True) == {0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029}
    assert codes(BREAK, whitespace=True) == {0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029}
    assert {0x09, 0x20, 0xA0, 0x3000} < codes(BLANK, whitespace=True) and not codes(REMOVED, whitespace=True)


def test_controls_and_noncharacters_go_and_joiners_stay() -> None:
    gone = codes(REMOVED, control=True)
    assert {0x00, 0x1B, 0x7F, 0x80, 0xFEFF, 0xFDD0, 0x1FFFF} < gone
    assert not gone & {0x09, 0x0A, 0x0D, 0x85, 0x200B, 0x200D, 0x00AD, 0xE000}


def test_marks_have_their_rank_and_characters_without_a_place_in_the_form_change() -> None:
    for form in ("NFC", "NFKC"):
        table = make_table(form, False, False, False)
        for code in (0x41, 0xC5, 0x212B, 0x301, 0x327, 0xFB01, 0x1100):
            assert table[code] & RANK == unicodedata.combining(chr(code))
            assert bool(table[code] & CHANGES) == (unicodedata.normalize(form, chr(code)) != chr(code))


def test_pairs_are_those_that_compose() -> None:
    pairs = make_pairs().tolist()
    assert pairs == sorted(pairs) and len(pairs) > 900
    assert all(len(unicodedata.normalize("NFC", chr(pair >> 32) + chr(pair & 0xFFFFFFFF))) == 1 for pair in pairs)
