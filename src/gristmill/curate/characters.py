"""What each Unicode character is to the rules, as one byte of a table: its kind (the low three bits) and its marks.

Classes come from Python's own `unicodedata`, so their version is that of the running Python, named in the manifest.
"""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from gristmill.core.kept_tables import kept_table

# What a character does to a word of the `gristmill` splitter.
KIND = 7
OTHER, SPACE, LETTER, DIGIT, EXTEND, SINGLE, INNER, POINT = range(8)

# ALPHABETIC is str.isalpha, SYMBOL datatrove's PUNCTUATION_SET, TERMINAL its TERMINAL_PUNCTUATION, PUNCTUATION
# Unicode's category P.
ALPHABETIC, SYMBOL, TERMINAL, PUNCTUATION = 8, 16, 32, 128

_KIND_OF_CATEGORY = {"L": LETTER, "N": DIGIT, "M": EXTEND}

# Joiners and the soft hyphen are part of the word they stand in.
_EXTENDING = "00AD 200C-200D"
# Apostrophes and the low line between two letters or digits, decimal marks between two digits, do not end a word.
_INNER = "27 5F 2019"
_POINTS = "2C 2E"
# Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han.
UNSPACED = (
    "E00-EFF 1000-109F 1780-17FF 3005-3007 3021-3029 3040-30FF 31F0-31FF 3400-9FFF A9E0-A9FF AA60-AA7F F900-FAFF "
    "FF66-FF9D 1AFF0-1B16F 20000-3FFFF"
)
# More of them, which near duplicates do not know (`dedup.characters`): Tai, Yi, Tangut, Nushu.
_UNSPACED_TOO = "1950-19DF 1A20-1AAF A000-A4CF AA80-AADF 16FE0-18DFF 1B170-1B2FF"

# The characters that datatrove 0.10.1 takes for the end of a sentence in any script; no closing quotes.
_TERMINAL = (
    "21 2E 3F 589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E 1735-1736 17D4-17D6 "
    "17D9-17DA 1803 1809 1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E 1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 "
    "2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB "
    "FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 "
    "111C5-111C6 111CD 111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7 11641-11642 "
    "1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44 16A6E-16A6F 16AF5 "
    "16B37-16B38 16B44 16E98 1BC9F 1DA88"
)
# What datatrove calls punctuation besides these: most of ASCII's, some of Chinese and typography, control characters
# (a tab and a line feed are not among them, the full-width digit one is).
_SYMBOLS = (
    "0-8 B-1F 21-2F 3A-40 5B-60 7B-9F AB B4 BB 2013-2014 2019 201C-201E 2026 2236 2501 25BA 3001-3002 3008-300D "
    "3010-3011 FF01 FF05 FF08-FF09 FF0C FF0E FF11 FF1A-FF1B FF1F FF5E"
)

# Nothing is assigned from here to 0xE0000, and nothing but tags, selectors and private use after it.
_ASSIGNED_END = 0x40000
_SELECTORS = range(0xE0100, 0xE01F0)


def ranges(text: str) -> list[tuple[int, int]]:
    """`41 61-7A` as [(0x41, 0x42), (0x61, 0x7B)]: hexadecimal code points, ends excluded."""
    bounds = [item.split("-") for item in text.split()]
    return [(int(bound[0], 16), int(bound[-1], 16) + 1) for bound in bounds]


@kept_table
def characters() -> npt.NDArray[np.uint8]:
    """The table: 1,114,112 bytes."""
    table = np.zeros(0x110000, np.uint8)
    table[:_ASSIGNED_END] = [_of_category(chr(code)) for code in range(_ASSIGNED_END)]
    table[_SELECTORS.start : _SELECTORS.stop] = EXTEND
    for text, kind in ((_EXTENDING, EXTEND), (_INNER, INNER), (_POINTS, POINT)):
        for begin, end in ranges(text):
            table[begin:end] = table[begin:end] & ~np.uint8(KIND) | kind
    for begin, end in ranges(f"{UNSPACED} {_UNSPACED_TOO}"):
        letters = (table[begin:end] & ALPHABETIC) != 0
        table[begin:end][letters] = table[begin:end][letters] & ~np.uint8(KIND) | SINGLE
    for text, mark in ((_TERMINAL, TERMINAL | SYMBOL), (_SYMBOLS, SYMBOL)):
        for begin, end in ranges(text):
            table[begin:end] |= np.uint8(mark)
    return table


def _of_category(character: str) -> int:
    category = unicodedata.category(character)[0]
    kind = SPACE if character.isspace() else _KIND_OF_CATEGORY.get(category, OTHER)
    return kind | (ALPHABETIC if character.isalpha() else 0) | (PUNCTUATION if category == "P" else 0)
