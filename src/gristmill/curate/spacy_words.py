"""spaCy's English tokens at compiled speed: each distinct chunk between white space is tokenised once.

Compiled code does it for all but one in a thousand, by the rules of spaCy 3.8, and Python for the others; another spaCy
is asked itself. One thing of spaCy is left out: where an emoticon inside a chunk and signs of the chunk before or after
it could be read as another one (`x|[ =]s`), spaCy splits what it would not split elsewhere. Words then differ by one;
decisions hardly can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.kernels.slots import hash_set
from gristmill.curate import chunk_kernels as kernels
from gristmill.curate.characters import characters
from gristmill.curate.chunk_tokenizer import MAX_CHARS
from gristmill.curate.documents import Documents
from gristmill.curate.spacy_rules import SpacyRules, load_english, spacy_rules
from gristmill.curate.spacy_tokenizer import SpacyTokenizer
from gristmill.curate.words import WordColumns, Words

# A process forgets all chunks and begins anew when it knows this many words of them: under 200 MB with the slots.
MAX_KNOWN_WORDS = 1 << 22
# Chunks asked for together.
_MISSES = 1 << 14
# A table begins with 10 MB, of which the system gives what is used.
_FIRST_SLOTS = 1 << 18
# Rows that a scan wants free: one a character of the longest chunk that it splits itself.
_SPARE = MAX_CHARS + 1


def spacy_words(documents: Documents) -> Words:
    """The words of these documents."""
    return _chunk_table().split(documents)


@cache
def _chunk_table() -> ChunkTable:
    return ChunkTable(spacy_rules(), MAX_KNOWN_WORDS)


class ChunkTable:
    """What spaCy makes of each chunk seen so far."""

    def __init__(self, rules: SpacyRules, max_words: int) -> None:
        self._token_lengths, self._max_words = _by_rules(rules) if rules.known else _by_spacy(), max_words
        sentence_ends = np.array(sorted(map(ord, rules.ends)), np.int64)
        letters = [rule for rule in rules.rules if rule.isascii() and rule.isalpha()]
        self._rulebook = (characters(), rules.tables, hash_set(letters), sentence_ends)
        # Where a scan stands: see STATE in chunk_kernels.
        self._state = np.zeros(7, np.int64)
        self._misses = np.empty(2 * _MISSES, np.int64)
        self._desk = tuple(np.empty(_SPARE, kind) for kind in (np.int32, np.int64, np.bool_))
        self._clear()

    def split(self, documents: Documents) -> Words:
        """The words of these documents, chunks that compiled code leaves aside included."""
        output, state = WordColumns(documents), self._state
        state[: kernels.ROWS] = 0
        while state[kernels.DOCUMENT] < len(documents):
            why = kernels.look_up(
                documents.data,
                documents.offsets,
                self._rulebook,
                self._table,
                self._desk,
                self._misses,
                output.bounds,
                output.columns,
                state,
            )
            self._settle(documents, output)
            if why == kernels.COLUMNS_FULL:
                output.grow()
            elif why == kernels.TABLE_FULL:
                self._make_room(_SPARE)
        return output.words()

    def _settle(self, documents: Documents, output: WordColumns) -> None:
        """Learn the chunks that the scan noted, and put their words in the place of their stand-ins."""
        spans = self._misses[: self._state[kernels.ASKED]].reshape(-1, 2).tolist()
        if spans:
            self._learn([documents.data[begin:end].tobytes() for begin, end in spans])
            while kernels.settle(self._table, output.bounds, output.columns, self._state):
                output.grow()

    def _clear(self) -> None:
        """Forget all chunks."""
        self._table = (np.zeros(_FIRST_SLOTS, kernels.SLOT), np.empty(_FIRST_SLOTS, kernels.KNOWN))
        self._state[kernels.ROWS :] = 0

    def _learn(self, chunks: list[bytes]) -> None:
        """Find the words of these chunks and keep them."""
        text = b"".join(chunk + b"\n" for chunk in chunks)
        lengths = self._token_lengths(text.decode())
        self._make_room(len(lengths) + _SPARE)
        kernels.learn(np.frombuffer(text, np.uint8), self._rulebook, lengths, self._table, self._state)

    def _make_room(self, rows: int) -> None:
        """Room for these rows and as many chunks as are asked for together; all is forgotten where it is too much."""
        if self._state[kernels.ROWS] > self._max_words:
            self._clear()
        slots, known = self._table
        if self._state[kernels.ROWS] + rows > len(known):
            known = np.concatenate((known, np.empty(max(rows, len(known)), kernels.KNOWN)))
        if 2 * (self._state[kernels.CHUNKS] + _MISSES) > len(slots):
            larger = np.zeros(2 * len(slots), kernels.SLOT)
            kernels.rehash(slots, larger)
            slots = larger
        self._table = (slots, known)


# The length in characters of each token of chunks, one a line, line feeds included.
TokenLengths = Callable[[str], Ints]


def _by_rules(rules: SpacyRules) -> TokenLengths:
    tokenizer = SpacyTokenizer(rules)

    def lengths(lines: str) -> Ints:
        chunks = lines.split("\n")[:-1]
        return np.array([size for chunk in chunks for size in [*map(len, tokenizer.tokens(chunk)), 1]], np.int64)

    return lengths


def _by_spacy() -> TokenLengths:
    """By spaCy itself, whose patterns are others than we know."""
    english = load_english()

    def lengths(lines: str) -> Ints:
        # spaCy looks for special cases such as `:-(` across blanks too, but never across a line feed.
        with english.memory_zone():
            found: Ints = english.tokenizer(lines).to_array(["LENGTH"]).astype(np.int64)
        return found

    return lengths
