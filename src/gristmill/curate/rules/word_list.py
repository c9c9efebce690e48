"""Lists of words and phrases to look for in texts, as the tables of a compiled matcher."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.kept_tables import kept_table
from gristmill.curate.characters import ALPHABETIC, DIGIT, EXTEND, KIND, characters
from gristmill.curate.documents import Documents
from gristmill.places.door import place_at

# The last character that has a small letter lies below (U+1E921, Adlam).
_CASED_END = 0x1E922


@dataclass(frozen=True)
class Matches:
    """By document: characters in words, those of listed words, and the byte bounds of the first of these (or -1)."""

    characters: Ints
    listed: Ints
    begins: Ints
    ends: Ints


@dataclass
class _Trie:
    """Nodes by number; a link's key is the node it leaves and its character."""

    links: dict[int, int] = field(default_factory=dict)
    kinds: list[int] = field(default_factory=lambda: [0])

    def add(self, word: str, kind: int, bits: int) -> None:
        node = 0
        for character in word:
            node = self.links.setdefault(node << bits | ord(character), len(self.kinds))
            if node == len(self.kinds):
                self.kinds.append(0)
        self.kinds[node] |= kind


class WordList:
    """Words to find whatever their case: some stand `alone`, others `anywhere`, also inside of words.

    Letters, digits and the low line are part of words; with `marks` combining marks are too, as Hindi needs.
    """

    def __init__(self, alone: Iterable[str], anywhere: Iterable[str] = (), marks: bool = True) -> None:
        from gristmill.curate.rules import matching_kernels as kernels

        trie, table = _Trie(), np.where(_in_words(marks), kernels.IN_WORD, 0).astype(np.uint8)
        first, small = np.zeros_like(table), small_letters().copy()
        for words, kind in ((alone, kernels.ALONE), (anywhere, kernels.ANYWHERE)):
            for word in sorted({word.lower() for word in words} - {""}):
                trie.add(word, kind, kernels.CHARACTER_BITS)
                first[ord(word[0])] |= kind
        table |= first
        table[:_CASED_END] |= first[small]
        self._tables = (table, *_hash_table(trie.links), np.array(trie.kinds, np.uint8), small)

    def match(self, documents: Documents) -> Matches:
        """Look for all words in all texts."""
        from gristmill.curate.rules import matching_kernels as kernels

        found = np.empty((len(documents), 4), np.int64)
        kernels.match(documents.data, documents.offsets, self._tables, found)
        return Matches(*np.ascontiguousarray(found.T))


def _in_words(marks: bool) -> npt.NDArray[np.bool_]:
    """Which characters are part of words: those of Python's `\\w`, and with `marks` the combining ones."""
    table = characters()
    inside: npt.NDArray[np.bool_] = (table & ALPHABETIC != 0) | (table & KIND == DIGIT)
    inside[ord("_")] = True
    return np.asarray(inside | (table & KIND == EXTEND)) if marks else inside


def _hash_table(links: dict[int, int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Keys and nodes by slot, at most half full."""
    from gristmill.curate.rules import matching_kernels as kernels

    size = 1 << (2 * len(links) + 1).bit_length()
    keys, nodes = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    kernels.fill(np.array(list(links), np.int64), np.array(list(links.values()), np.int64), keys, nodes)
    return keys, nodes


@kept_table
def small_letters() -> npt.NDArray[np.int32]:
    """Each character's small letter; those that become several characters (İ) become the first of them."""
    return np.array([ord(chr(code).lower()[0]) for code in range(_CASED_END)], np.int32)


def read_lines(path: str | Path, whose: str) -> tuple[str, ...]:
    """The entries of a list file: one a line, without blank lines and lines that begin with `#`."""
    try:
        lines = place_at(path).read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{whose} cannot read its list {path}: {error}.") from error
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
