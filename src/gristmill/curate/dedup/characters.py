"""Which characters make words, as one table over all code points, for the use of compiled code."""

from __future__ import annotations

import functools
import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

# Scripts that are written without spaces between words: each character is a unit of its own.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # Han: iteration mark, zero
    (0x3021, 0x3029),  # Han: Hangzhou numerals
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # Myanmar extended B
    (0xAA60, 0xAA7F),  # Myanmar extended A
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x1AFF0, 0x1B16F),  # Kana supplements
    (0x20000, 0x3FFFF),  # Han extensions
)
# Beyond plane 3 nothing is a letter: tags, variation selectors, private use.
_LETTERS_END = 0x40000


@functools.cache
def unit_table() -> npt.NDArray[np.uint32]:
    """By code point: 0 for a separator, else twice the lower-cased code point, plus 1 in a script without spaces.

    Letters, marks and numbers of any script make words; all else separates. 2^21 entries, so that no sequence of four
    bytes leads outside; pages never read take no memory. Made in 0.1 s, once a process, by Python's Unicode version.
    """
    table = np.zeros(1 << 21, np.uint32)
    for code in range(_LETTERS_END):
        character = chr(code)
        if unicodedata.category(character)[0] in "LMN":
            table[code] = 2 * ord(character.lower()[0])
    for first, last in _UNSPACED:
        table[first : last + 1] |= (table[first : last + 1] > 0).astype(np.uint32)
    table.setflags(write=False)
    return table


def unicode_version() -> Any:
    """What `unit_table` was made by: characters that another version added are hashed otherwise."""
    return unicodedata.unidata_version
