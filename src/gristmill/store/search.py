"""Find a phrase in the text of a store, without decoding it.

found = search(store, "to be or not to be")
found.hits, found.documents          # all of them
found.first[0].document, found.first[0].before, found.first[0].after

The same words are other tokens in other surroundings, so no list of ids stands for a phrase. But each token of a
byte-level tokenizer has its bytes, and the phrase is followed through them, token by token; most tokens can be passed
over by one look into a table. Tokenizers that decode by context (SentencePiece, WordPiece) have every document decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import as_whole, refuse
from gristmill.core.arrays import Bytes, Ints
from gristmill.core.errors import ConfigError
from gristmill.store.reader import Store
from gristmill.store.token_bytes import TokenBytes, token_bytes

# Tokens that are scanned at once (1 to 5 ms) and counted beforehand, and bytes that are shown around a match.
_PIECE, _SAMPLE, _CONTEXT = 1 << 21, 1 << 18, 120


@dataclass(frozen=True)
class Hit:
    """A place of the phrase: its document, None where a file has no boundaries, and the text before and after it.

    token: the number in the document of the token in which it begins; None where texts were searched.
    """

    document: int | None
    token: int | None
    before: str
    after: str


class Search:
    """A search that goes on for as long as it is iterated: after each piece its figures are those so far.

    hits: places, overlapping ones too, of which `first` has the first `limit`; documents: those with a hit;
    tokens: those read, of `total`. by_tokens: whether tokens are scanned, rather than documents decoded.
    """

    def __init__(self, store: Store, phrase: str, limit: int = 20) -> None:
        self.store, self.phrase, self.limit = store, phrase, as_whole("limit", limit, 0)
        self.hits = self.documents = self.tokens = 0
        self.total, self.first = store.num_tokens, list[Hit]()
        self._wanted = _as_bytes(phrase)
        # Bytes that are no text are decoded as U+FFFD, which only decoding finds.
        self._table = None if "\ufffd" in phrase else token_bytes(store)
        self.by_tokens = self._table is not None

    def __iter__(self) -> Iterator[Search]:
        """Search on; each item is the search itself, after one more piece."""
        for _ in self._decode_all() if self._table is None else self._scan_all(self._table):
            yield self

    def _scan_all(self, table: TokenBytes) -> Iterator[None]:
        scan = _Scan(self, table, self._wanted)
        for shard in range(self.store.num_shards):
            for tokens, places in scan.pieces(shard):
                self.tokens += tokens
                self.hits, self.documents = scan.hits, scan.documents
                self.first += [self._hit(table, shard, *place) for place in places]
                yield

    def _hit(self, table: TokenBytes, shard: int, row: int, last: int, length: int) -> Hit:
        """The surroundings of a match that ends after `length` bytes of token `last` of a shard."""
        store, last = self.store, last + self.store.tokens_in(shard)
        document = None if store.facts.boundary is None else store.documents_in(shard) + row
        ends = store.tokens_in(shard), store.tokens_in(shard + 1)
        start, end = ends if document is None else store.document_span(document)
        begin = _begin(store, table, start, last, len(self._wanted) + _CONTEXT)
        ids = store.tokens(begin, min(last + _CONTEXT, end))
        places, text = np.cumsum(np.append(0, table.lengths(ids))), table.of(ids)
        after = int(places[last - begin]) + length
        at = after - len(self._wanted)
        token = begin - start + int(np.searchsorted(places, at, side="right")) - 1
        return Hit(document, token, _part(text, at - _CONTEXT, at), _part(text, after, after + _CONTEXT))

    def _decode_all(self) -> Iterator[None]:
        """Every document as its text."""
        for number, document in enumerate(self.store):
            text, at = document.text, -1
            hits = self.hits
            while (at := text.find(self.phrase, at + 1)) >= 0:
                self.hits += 1
                if len(self.first) < self.limit:
                    end = at + len(self.phrase)
                    self.first.append(Hit(number, None, text[max(at - _CONTEXT, 0) : at], text[end : end + _CONTEXT]))
            self.documents += self.hits > hits
            self.tokens += len(document.tokens)
            yield


def search(store: Store, phrase: str, limit: int = 20) -> Search:
    """Search all of a store for a phrase, as its documents' texts spell it; the first `limit` places are kept."""
    found = Search(store, phrase, limit)
    deque(found, maxlen=0)
    return found


class _Scan:
    """The automaton of a phrase over the tokens of a store, and how far it is in one of its shards."""

    def __init__(self, search: Search, table: TokenBytes, wanted: bytes) -> None:
        from gristmill.store import search_kernels as kernels

        self._kernels, self._store = kernels, search.store
        short = search.store.dtype.itemsize <= 2
        self._scan, self._dtype = kernels.scan_shorts if short else kernels.scan_integers, "<u2" if short else "<u4"
        self._search = _prepared(table, wanted, search.store)
        self._carry, self._places = np.zeros(7, np.int64), np.empty((search.limit, 3), np.int64)

    @property
    def hits(self) -> int:
        return int(self._carry[self._kernels.HITS])

    @property
    def documents(self) -> int:
        return int(self._carry[self._kernels.DOCUMENTS])

    def pieces(self, shard: int) -> Iterator[tuple[int, list[list[int]]]]:
        """Scan a shard piece by piece: how many tokens each has, and the places in it that are kept."""
        kernels, ends = self._kernels, _ends(self._store, shard)
        self._carry[[kernels.BEGUN, kernels.DOCUMENT, kernels.DONE, kernels.NEEDED]] = 0
        self._carry[kernels.COUNTED] = -1
        for start in range(0, int(ends[-1]), _PIECE):
            first, before = int(self._carry[kernels.NEEDED]), self.hits
            tokens = self._store.shard_tokens(shard, first, start + _PIECE).astype(self._dtype, copy=False)
            self._scan(tokens, first, start, ends, self._search, self._carry, self._places.reshape(-1))
            yield first + len(tokens) - start, self._places[before : self.hits].tolist()


def _ends(store: Store, shard: int) -> Ints:
    """Where the documents of a shard end; without boundaries it is one."""
    if store.facts.boundary is None:
        return store.files.tokens[shard : shard + 1].astype(np.int64)
    return np.cumsum(store.document_lengths(shard))


def _prepared(table: TokenBytes, wanted: bytes, store: Store) -> tuple[object, ...]:
    """What kernels know of a phrase: the automaton, a byte of it, tokens that may hold it, and each token's matches.

    Of up to 16 bytes the one is taken whose tokens are rarest in the first tokens of the store: all others are passed
    over, and a phrase that begins with "the" need not be followed from each "the".
    """
    from gristmill.store.search_kernels import follow_tokens, mark_telling

    automaton = np.frombuffer(wanted, np.uint8), _borders(wanted), table.data, table.offsets
    sample = np.minimum(store.shard_tokens(0, 0, _SAMPLE) if store.num_shards else [], len(table)).astype(np.int64)
    common = np.bincount(sample, minlength=len(table) + 1)
    marked: list[tuple[int, int, Bytes]] = []
    for anchor in sorted({i * len(wanted) // 16 for i in range(16)}):
        telling = np.zeros(len(table) + 1, np.uint8)
        mark_telling(automaton, anchor, telling)
        marked.append((int(common @ telling), anchor, telling))
    _, anchor, telling = min(marked, key=lambda each: each[:2])
    whole, begun = np.zeros((2, len(table) + 1), np.int32)
    follow_tokens(automaton, whole, begun)
    return automaton, anchor, telling, whole, begun


def _as_bytes(phrase: str) -> bytes:
    if not isinstance(phrase, str) or not phrase:
        raise refuse("phrase", "a text of one character or more", phrase)
    try:
        return phrase.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("The phrase holds half of a surrogate pair, which no text does.") from None


def _borders(wanted: bytes) -> npt.NDArray[np.int32]:
    """For each length of a beginning of `wanted`, that of the longest shorter one that it ends with."""
    borders = np.zeros(len(wanted) + 1, np.int32)
    length = 0
    for i in range(1, len(wanted)):
        while length and wanted[i] != wanted[length]:
            length = int(borders[length])
        length += wanted[i] == wanted[length]
        borders[i + 1] = length
    return borders


def _begin(store: Store, table: TokenBytes, start: int, last: int, need: int) -> int:
    """A token from which on to `last` there are `need` bytes or more, or the document's start."""
    count = need
    while last - count > start and table.lengths(store.tokens(last - count, last)).sum() < need:
        count *= 2
    return max(last - count, start)


def _part(data: bytes, start: int, end: int) -> str:
    """The text of some bytes, without the characters that it would cut in two."""
    start, end = max(start, 0), min(end, len(data))
    while 0 < start < end and data[start] & 0xC0 == 0x80:
        start += 1
    while start < end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[start:end].decode("utf-8", errors="replace")
