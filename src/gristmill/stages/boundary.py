"""Where the tokens of a text can be cut in two: after a paragraph if one ends near enough, else between characters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.tokenize.tokenizer import Tokenizer

Tokens = npt.NDArray[Any]

_PARAGRAPH_END = re.compile(r"\n\s*\n")
# A character is 4 bytes at most, so a token that begins one is never far; a text full of U+FFFD is cut where it stands.
_CHARACTER_REACH = 8


def cut_place(tokens: Tokens, wanted: int, reach: int, tokenizer: Tokenizer) -> tuple[int, str]:
    """The first token of the second part, at most `reach` from `wanted`, and at which boundary it stands.

    Both parts hold a token at least; `tokens` come without the EOS.
    """
    wanted = min(max(wanted, 1), len(tokens) - 1)
    low, high = max(wanted - reach, 1), min(wanted + reach, len(tokens) - 1)
    found = (paragraph_ends(tokens[low - 1 : high + 1], tokenizer) + low - 1).tolist()
    ends = [place for place in found if low <= place <= high]
    if ends:
        return min(ends, key=lambda place: (abs(place - wanted), place)), "paragraph"
    nearby = sorted(range(low, high + 1), key=lambda place: (abs(place - wanted), place))[: 2 * _CHARACTER_REACH]
    whole = (place for place in nearby if _between_characters(tokens, place, tokenizer))
    return next(whole, wanted), "token"


def paragraph_ends(tokens: Tokens, tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """The tokens before which a blank line ends, where a token begins there."""
    kinds, of = np.unique(tokens, return_inverse=True)
    texts = [tokenizer.decode([token]) for token in kinds.tolist()]
    text = "".join(texts[kind] for kind in of.tolist())
    sizes = np.array([len(text) for text in texts], np.int64)[of]
    starts = np.cumsum(sizes) - sizes
    ends = np.array([found.end() for found in _PARAGRAPH_END.finditer(text)], np.int64)
    return np.flatnonzero(np.isin(starts, ends) & (sizes > 0))


def _between_characters(tokens: Tokens, place: int, tokenizer: Tokenizer) -> bool:
    before = tokenizer.decode(tokens[max(place - _CHARACTER_REACH, 0) : place])
    after = tokenizer.decode(tokens[place : place + _CHARACTER_REACH])
    return not before.endswith("\ufffd") and not after.startswith("\ufffd")
