"""What cleaning does with each character, as one number of a table: 15 bits for each of 1,114,112 code points.

Properties come from Python's own `unicodedata`, so their version is that of the running Python, named in the manifest.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.kept_tables import kept_table

CleanTable = npt.NDArray[np.uint16]
Form = Literal["NFC", "NFKC"]

# The canonical combining class: marks on one letter stand in rising order of it.
RANK = 255
# CHANGES: no text in the normal form has this character. COMPOSES: it may melt into the one before it.
CHANGES, COMPOSES = 1 << 8, 1 << 9
# COMPOSED: it has marks in it, which may have to change places with one that follows.
COMPOSED = 1 << 14
# REMOVED: a control character. REPLACED: a line end that becomes a line feed.
REMOVED, REPLACED = 1 << 10, 1 << 11
# BLANK before BREAK, or at the end of a document, is stripped.
BREAK, BLANK = 1 << 12, 1 << 13

LINE_ENDS = (0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029)
_LINE_FEED, _TAB, _BYTE_ORDER_MARK = 0x0A, 0x09, 0xFEFF
_KEPT_CONTROLS = {_TAB, _LINE_FEED, *LINE_ENDS}

# No character from here on has a normal form of its own or a combining class.
_NORMAL_END = 0x30000


@kept_table
def make_table(form: Form | None, control: bool, line_ends: bool, whitespace: bool) -> CleanTable:
    """The table for these steps, made once a machine: what is not asked for has no bit in it."""
    table = _normal_form(form) if form else np.zeros(0x110000, np.uint16)
    if control:
        table[_controls()] |= np.uint16(REMOVED)
    if line_ends:
        table[list(LINE_ENDS)] |= np.uint16(REPLACED)
    if whitespace:
        table[[_LINE_FEED, *LINE_ENDS]] |= np.uint16(BREAK)
        # The tab and Unicode's space separators: the blank, the no-break, the ideographic and 14 more.
        separators = [code for code in range(0x10000) if unicodedata.category(chr(code)) == "Zs"]
        table[[_TAB, *separators]] |= np.uint16(BLANK)
    return table


@kept_table
def make_pairs() -> Ints:
    """The pairs of characters that compose, sorted: first << 32 | second. Hangul's 11,172 are left to its formula."""
    pairs = [pair for code in range(_NORMAL_END) if (pair := _pair(chr(code)))]
    return np.sort(np.array(pairs, np.int64))


def _controls() -> list[int]:
    """C0, DEL and C1 but for tabs and line ends; byte order marks; the 66 noncharacters."""
    codes = {*range(0x20), *range(0x7F, 0xA0), _BYTE_ORDER_MARK, *range(0xFDD0, 0xFDF0)} - _KEPT_CONTROLS
    return sorted(codes | {plane << 16 | last for plane in range(17) for last in (0xFFFE, 0xFFFF)})


def _normal_form(form: Form) -> CleanTable:
    table = np.zeros(0x110000, np.uint16)
    for code in range(_NORMAL_END):
        character = chr(code)
        table[code] = unicodedata.combining(character)
        if unicodedata.normalize(form, character) != character:
            table[code] |= CHANGES
        elif unicodedata.decomposition(character)[:1] not in ("", "<"):
            table[code] |= COMPOSED
    table[make_pairs() & 0xFFFFFFFF] |= np.uint16(COMPOSES)
    table[0x1161:0x1176] |= np.uint16(COMPOSES)
    table[0x11A8:0x11C3] |= np.uint16(COMPOSES)
    return table


def _pair(character: str) -> int | None:
    """The two characters that compose to this one in both normal forms."""
    parts = unicodedata.decomposition(character).split()
    if len(parts) != 2 or parts[0][0] == "<" or unicodedata.normalize("NFC", character) != character:
        return None
    return int(parts[0], 16) << 32 | int(parts[1], 16)
