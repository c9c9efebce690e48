"""One `.idx` file: checked once when it is mapped, so that what reads it afterwards need not doubt an entry.

Where only a token marks documents, they are scanned for EOS, and kept as such a file.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.store.files import readable
from gristmill.store.format import IDX_CODES, IDX_HEADER, IdxHeader, read_idx_header, write_idx

if TYPE_CHECKING:
    from gristmill.store.reader import Store

# Entries that are looked at together: 256 KiB stay in the cache for all comparisons.
_ENTRIES = 32_768
_SCAN_TOKENS = 1 << 24


def read_header(path: str) -> IdxHeader:
    """The head of an `.idx`, its file named if it cannot be read."""
    with readable(path):
        return read_idx_header(place_at(path).read(0, IDX_HEADER), path)


def check_idx(data: Bytes, name: str, tokens: int, itemsize: int, checksum: str = "") -> IdxHeader:
    """The header of a whole `.idx` for a shard of `tokens` tokens, every entry of which may be trusted from now on.

    Size, sum (where there is one), order and range are checked at 2 to 4 GB/s: documents begin at token 0, follow one
    another and end inside the shard. Without a sum, as in files of other systems, lengths must agree with them too.
    """
    header = read_idx_header(data[:IDX_HEADER].tobytes(), name)
    if len(data) < header.size:
        raise StoreError(f"{name} has {len(data):,} bytes, {header.size:,} were expected: it was cut off.")
    if checksum and xxhash.xxh3_128_hexdigest(data.data) != checksum:
        raise StoreError(f"{name} is damaged: its checksum differs from the manifest; restore it.")
    pointers, marks = _arrays(data, header)
    if header.sequences == 0 and tokens:
        raise StoreError(f"{name} marks no sequences, but there are {tokens:,} tokens beside it: make it again.")
    if not _rises(marks, header.sequences) or int(marks[-1]) != header.sequences:
        raise StoreError(f"{name} is damaged: its documents do not follow one another; make it again.")
    if not _rises(pointers, tokens * itemsize, itemsize):
        raise StoreError(f"{name} is damaged, or belongs to another file: its sequences do not follow one another "
                         f"inside the {tokens:,} tokens beside it; make it again.")  # fmt: skip
    if not checksum and not _lengths_agree(data[IDX_HEADER : header.pointers_at].view("<i4"), pointers, itemsize):
        raise StoreError(f"{name} is damaged: its sequences do not have the lengths that it says, in tokens of "
                         f"{itemsize} bytes; make it again.")  # fmt: skip
    return header


def _arrays(data: Bytes, header: IdxHeader) -> tuple[Ints, Ints]:
    """Where each sequence begins, in bytes, and the first sequence of each document."""
    pointers = data[header.pointers_at : header.documents_at].view("<i8")
    return pointers, data[header.documents_at : header.size].view("<i8")


def _rises(values: Ints, most: int, multiple: int = 1) -> bool:
    """Whether values begin with 0, never fall, go no higher than `most` and are all multiples of a power of two."""
    last = 0
    for at in range(0, len(values), _ENTRIES):
        part = np.array(values[at : at + _ENTRIES])  # an aligned copy: Megatron's arrays follow a header of 34 bytes
        if part[0] < last or (at == 0 and part[0]) or (part[1:] < part[:-1]).any() or (part & (multiple - 1)).any():
            return False
        last = int(part[-1])
    return last <= most


def _lengths_agree(lengths: npt.NDArray[np.int32], pointers: Ints, itemsize: int) -> bool:
    """Whether each sequence but the last, whose end is the shard's, is as long as the way to the next one."""
    ways = ((pointers[at : at + _ENTRIES + 1], lengths[at : at + _ENTRIES]) for at in range(0, len(pointers), _ENTRIES))
    return all((np.diff(part) == said[: len(part) - 1].astype(np.int64) * itemsize).all() for part, said in ways)


class Idx:
    """The documents of one shard of `tokens` tokens, memory-mapped: read with numpy alone, where no batch waits."""

    def __init__(self, path: str, tokens: int, itemsize: int, checksum: str = "") -> None:
        with readable(path):
            data = place_at(path).view()
        header = check_idx(data, path, tokens, itemsize, checksum)
        self.documents, self._tokens, self._itemsize = header.documents, tokens, itemsize
        self._pointers, self._marks = _arrays(data, header)

    def start(self, document: int) -> int:
        """The first token of a document; for the number after the last one, the end of the shard."""
        sequence = int(self._marks[document])
        return int(self._pointers[sequence]) // self._itemsize if sequence < len(self._pointers) else self._tokens

    def starts(self, documents: Ints) -> Ints:
        """The first tokens of many documents, as `start` has them."""
        sequences = np.asarray(self._marks)[documents]
        last = len(self._pointers)
        if not last:
            return np.full(len(documents), self._tokens, np.int64)
        pointers = np.asarray(self._pointers)[np.minimum(sequences, last - 1)]
        return np.where(sequences < last, pointers // self._itemsize, self._tokens).astype(np.int64)

    def document_at(self, token: int) -> int:
        """The document that holds a token, by bisection; empty ones are passed over."""
        return bisect.bisect_right(range(self.documents), token, key=self.start) - 1

    def lengths(self) -> Ints:
        """Tokens of every document."""
        starts = np.append(self._pointers // self._itemsize, self._tokens)
        lengths: Ints = np.diff(starts[self._marks]).astype(np.int64)
        return lengths


def spans_of(
    documents: Ints, doc_starts: Ints, token_starts: Ints, index_of: Callable[[int], Idx]
) -> tuple[Ints, Ints]:
    """The first tokens and the ends of documents, in shards that begin with these documents and tokens."""
    shards = np.searchsorted(doc_starts, documents, side="right") - 1
    start, end = np.empty_like(documents), np.empty_like(documents)
    for shard in np.unique(shards).tolist():
        here = shards == shard
        first, rows = int(token_starts[shard]), documents[here] - int(doc_starts[shard])
        start[here], end[here] = (first + index_of(shard).starts(each) for each in (rows, rows + 1))
    return start, end


def spans_between(
    start: int, end: int, doc_starts: Ints, token_starts: Ints, index_of: Callable[[int], Idx]
) -> list[tuple[int, int, int]]:
    """The (document, first, last) that tokens [start, end) hold, positions counted inside each document."""
    found: list[tuple[int, int, int]] = []
    while start < end:
        shard = int(np.searchsorted(token_starts, start, side="right")) - 1
        begins, index = int(token_starts[shard]), index_of(shard)
        row = index.document_at(start - begins)
        first, last = begins + index.start(row), begins + index.start(row + 1)
        found.append((int(doc_starts[shard]) + row, start - first, min(end, last) - first))
        start = last
    return found


def scanned_lengths(tokens: npt.NDArray[Any], eos: int, comes_first: bool) -> Ints:
    """Lengths of the documents that EOS ends (or, as in llm.c files, begins); what is left over is a document too."""
    marks = [np.flatnonzero(tokens[at : at + _SCAN_TOKENS] == eos) + at for at in range(0, len(tokens), _SCAN_TOKENS)]
    ends = np.concatenate([*marks, np.empty(0, np.int64)]).astype(np.int64) + (0 if comes_first else 1)
    edges = np.unique(np.concatenate([np.array([0, len(tokens)]), ends]))
    return np.diff(edges)


def write_scanned_idx(store: Store, shard: int, path: Address) -> None:
    """Scan one shard and write the `.idx` of its documents."""
    if store.eos is None:
        raise ConfigError(f"{store.facts.path} has no document boundaries and no eos= to find them by.")
    if store.dtype.name not in IDX_CODES:
        raise ConfigError(f"A Megatron index cannot describe {store.dtype} tokens.")
    lengths = scanned_lengths(store.shard_tokens(shard), store.eos, store.facts.boundary == "bos")
    with place_at(path).writing() as file:
        write_idx(file, lengths, store.dtype.name)
