"""Which characters make words, as one table over all code points, for the use of compiled code."""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import numpy.typing as npt

from gristmill.curate.characters import UNSPACED, ranges

# In scripts without spaces each character is a unit of its own, and so are the half-width voicing marks of kana. The
# rules' words know more such scripts; but units are in saved indexes, and change with `index.VERSION` or not at all.
_ALONE = f"{UNSPACED} FF9E-FF9F"
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
    for begin, end in ranges(_ALONE):
        table[begin:end] |= (table[begin:end] > 0).astype(np.uint32)
    table.setflags(write=False)
    return table
