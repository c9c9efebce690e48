"""An opened store: token files in place, memory-mapped when they are first read.

store = gm.open("data/corpus/train")
store.num_tokens, store.num_documents
store.tokens(0, 10)          # the first ten ids of the concatenated shards
store[7].text                # documents by number: len(store), store[-1], store[:5], for document in store
store.encode("Hello")        # ids by the tokenizer kept in the store; store.decode(ids) is the way back
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import as_names, as_whole, refuse
from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.hashing import fingerprint
from gristmill.core.html import counted, html_table
from gristmill.core.locks import Lock
from gristmill.places.door import place_at
from gristmill.store.blocks import BLOCKS_SUFFIX, Sums, check_blocks, read_checked
from gristmill.store.documents import Document, NamedDocuments, NumberedDocuments, Record
from gristmill.store.files import Files, Location, sampled_checksum
from gristmill.store.idx import Idx, read_header, spans_between, spans_of, write_scanned_idx
from gristmill.store.index import PackIndex, open_pack_index
from gristmill.store.kept_tokenizer import as_ids, encode, load_kept
from gristmill.store.table import ShardTable, offsets

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

    from gristmill.store.frames import Frames

_OPEN_INDICES = 64
# A shard from elsewhere that is asked for as a whole is held in memory up to this, else in a file without a name.
_HELD_BYTES = 64 << 20


@dataclass(frozen=True)
class StoreFacts:
    """What an opened store is, apart from its shards.

    boundary: 'idx', 'eos', 'bos' (EOS comes first) or None. stores: the folders, if several stores were opened as one.
    """

    path: str
    dtype: str
    eos: int | None
    owned: bool
    boundary: str | None
    tokenizer: str | None = None
    index_dir: str | None = None
    stores: tuple[str, ...] = ()
    vocab_size: int | None = None


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"Shard {path} cannot be read ({error}): restore it or make the store again.") from error


class Store:
    """Token files as one stream of `num_tokens` ids and `num_documents` documents; open it with `gristmill.open`."""

    def __init__(self, files: Files, facts: StoreFacts) -> None:
        self.files, self.facts = files, facts
        self.dtype = np.dtype(facts.dtype)
        self.eos, self.owned = facts.eos, facts.owned
        self._starts = offsets(files.tokens)
        self.names = NamedDocuments(files) if facts.owned else NumberedDocuments(files)
        self.lock = Lock()
        self.table: ShardTable | None = None  # the last that `table_of` made with this store as its first
        self._scanned: tempfile.TemporaryDirectory[str] | None = None
        self._packs: dict[int, PackIndex] = {}
        self._fingerprints: dict[int, str] = {}
        self._indices: dict[int, Idx] = {}
        self._summed: tuple[int, Sums] = (-1, np.empty(0, np.uint64))
        files.check_sizes(self.dtype.itemsize)

    def __repr__(self) -> str:
        known = f" and {counted(self.num_documents, 'document')}" if self._counts_documents else ""
        tokens = f"{self.num_tokens:,} {self.dtype} tokens"
        return f"Store({self.describe()}: {tokens}{known} in {counted(self.num_shards, 'shard')})"

    def _repr_html_(self) -> str:
        documents = self.num_documents if self._counts_documents else "not counted yet"
        row = (self.num_tokens, documents, self.num_shards, self.dtype, "none" if self.eos is None else self.eos)
        return html_table(f"Store {self.describe()}", ("tokens", "documents", "shards", "dtype", "EOS"), [row])

    def __reduce__(self) -> tuple[type[Store], tuple[Files, StoreFacts]]:
        return Store, (self.files, self.facts)

    # Figures: what a plan pins.

    @property
    def num_shards(self) -> int:
        """Files that hold tokens."""
        return len(self.files)

    @property
    def num_tokens(self) -> int:
        """Tokens of all shards, EOS included."""
        return int(self._starts[-1])

    @property
    def num_documents(self) -> int:
        """Documents of all shards."""
        return self.documents_in(self.num_shards)

    def tokens_in(self, shards: int) -> int:
        """Tokens of the first `shards` shards."""
        return int(self._starts[shards])

    def documents_in(self, shards: int) -> int:
        """Documents of the first `shards` shards."""
        return int(self.shard_documents()[:shards].sum())

    def describe(self) -> str:
        """Where the store is, for messages."""
        others = (len(self.facts.stores) if self.owned else self.num_shards) - 1
        return f"{self.facts.path} and {others:,} more" if others > 0 else self.facts.path

    def location(self) -> Location:
        """The arguments with which `gristmill.open` would open it again, for a plan's JSON."""
        if self.owned:
            return {"path": list(self.facts.stores) if len(self.facts.stores) > 1 else self.facts.path}
        paths = [self.files.path(i) for i in range(self.num_shards)]
        return {"path": paths if len(paths) > 1 else self.facts.path, "dtype": self.dtype.name, "eos": self.eos}

    @property
    def fingerprint(self) -> str:
        """32 hex digits that name the tokens, whatever the paths."""
        return self.fingerprint_of(self.num_shards)

    def fingerprint_of(self, shards: int) -> str:
        """The fingerprint of the first `shards` shards."""
        if shards not in self._fingerprints:
            sums = [checksum.decode() for checksum in self.checksums[:shards].tolist()]
            self._fingerprints[shards] = fingerprint([self.dtype.itemsize, [self.files.tokens[:shards].tolist(), sums]])
        return self._fingerprints[shards]

    @cached_property
    def checksums(self) -> npt.NDArray[np.bytes_]:
        """What identifies each shard; of foreign files it is sampled now, so that opening them reads nothing."""
        if self.owned:
            return self.files.checksums
        return np.array([sampled_checksum(self.files.path(i)) for i in range(self.num_shards)], dtype=np.bytes_)

    def truncated_tokens(self, seq_len: int, shards: int) -> int:
        """Tokens of documents beyond their first `seq_len`: what cut="pad" does not serve. Reads every index."""
        return sum(int(np.maximum(self.document_lengths(i) - seq_len, 0).sum()) for i in range(shards))

    def pack_index(self, seq_len: int) -> PackIndex:
        """The pack index for `seq_len`, made beforehand by `gristmill index`."""
        with self.lock:
            if seq_len not in self._packs:
                self._packs[seq_len] = open_pack_index(self, seq_len)
            return self._packs[seq_len]

    # Tokens.

    def tokens(self, start: int, end: int) -> npt.NDArray[np.generic]:
        """A copy of tokens [start, end) of the concatenated shards, in the store's dtype, compared with their sums."""
        start, end = as_whole("start", start, None), as_whole("end", end, None)
        if not 0 <= start <= end <= self.num_tokens:
            raise ConfigError(f"Tokens [{start}, {end}) are outside {self.facts.path}, which has {self.num_tokens:,}.")
        parts = []
        while start < end:
            shard = int(np.searchsorted(self._starts, start, side="right")) - 1
            stop = min(end, int(self._starts[shard + 1]))
            first = int(self._starts[shard])
            parts.append(self._checked(shard, start - first, stop - first))
            start = stop
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    def _checked(self, shard: int, start: int, stop: int) -> npt.NDArray[np.generic]:
        """Tokens of one shard; those of a plain one block by block, where it has sums (1 microsecond for 4 KiB)."""
        if self.files.compressed[shard] or not self.files.blocks_checksum(shard):
            return self.shard_tokens(shard, start, stop)
        path, itemsize, sums = self.files.path(shard), self.dtype.itemsize, self._token_sums(shard)
        with _readable(path), place_at(path).open(buffered=False) as file:
            data = read_checked(file, start * itemsize, (stop - start) * itemsize, sums, f"Shard {path}")
        return np.frombuffer(data, self.dtype)

    def _token_sums(self, shard: int) -> Sums:
        """The sums of a shard's tokens; those of the last shard that was asked for are kept."""
        with self.lock:
            if self._summed[0] != shard:
                path = self.files.sibling(shard, BLOCKS_SUFFIX)
                with _readable(path):
                    data = place_at(path).view()
                self._summed = shard, check_blocks(data, self.files.blocks_checksum(shard), path)
            return self._summed[1]

    def shard_tokens(self, shard: int, start: int = 0, stop: int | None = None) -> npt.NDArray[np.generic]:
        """Tokens [start, stop) of one shard: memory-mapped, a large one from elsewhere as a whole too; else a copy."""
        wanted = range(int(self.files.tokens[shard]))[start:stop]
        if not wanted:
            return np.empty(0, self.dtype)
        if self.files.compressed[shard]:
            out = np.empty(len(wanted), self.dtype)
            self._frames.read(shard, wanted.start, wanted.stop, out)
            return out
        path, header, itemsize = self.files.path(shard), int(self.files.header[shard]), self.dtype.itemsize
        first, end, place = header + wanted.start * itemsize, header + wanted.stop * itemsize, place_at(path)
        mapped = place.maps or (len(wanted) == self.files.tokens[shard] and end > _HELD_BYTES)
        with _readable(path):
            data = place.brought()[first:end] if mapped else np.frombuffer(place.read(first, end - first), np.uint8)
            if len(data) < len(wanted) * itemsize:
                raise OSError("it was cut off")
        return data.view(self.dtype)

    @cached_property
    def _frames(self) -> Frames:
        """What is decompressed of the shards."""
        from gristmill.store.frames import Frames

        return Frames(ShardTable([self]))

    # Documents.

    @property
    def _doc_starts(self) -> Ints:
        """The number of each shard's first document."""
        return offsets(self.shard_documents())

    def shard_documents(self) -> Ints:
        """Documents of each shard; where only EOS marks them, the first call scans the tokens."""
        if self.facts.boundary is None:
            raise ConfigError(
                f"{self.facts.path} has no document boundaries: give eos= when you open it, or build them once with "
                f"`gristmill index {self.facts.path} --eos ID`."
            )
        if (self.files.documents < 0).any():
            with self.lock:
                self.files.documents[:] = [read_header(self.idx_path(i)).documents for i in range(self.num_shards)]
        return self.files.documents

    def idx_path(self, shard: int) -> str:
        """The `.idx` of a shard; where EOS alone marks documents, it is scanned into a temporary file first."""
        if self.facts.boundary == "idx":
            return self.files.sibling(shard, ".idx")
        with self.lock:
            if self._scanned is None:
                self._scanned = tempfile.TemporaryDirectory(prefix="gristmill-")
            path = Path(self._scanned.name) / f"{shard}.idx"
            if not place_at(path).exists():
                write_scanned_idx(self, shard, path)
            return str(path)

    def _idx(self, shard: int) -> Idx:
        """The opened `.idx` of a shard; the last 64 stay open."""
        with self.lock:
            if shard not in self._indices:
                while len(self._indices) >= _OPEN_INDICES:
                    self._indices.pop(next(iter(self._indices)))
                tokens, checksum = int(self.files.tokens[shard]), self.files.idx_checksum(shard)
                self._indices[shard] = Idx(self.idx_path(shard), tokens, self.dtype.itemsize, checksum)
            return self._indices[shard]

    def document_lengths(self, shard: int) -> Ints:
        """Tokens of each document of one shard."""
        return self._idx(shard).lengths()

    def _place(self, document: int) -> tuple[int, int]:
        """The shard of a document and its row there."""
        if not 0 <= document < self.num_documents:
            raise ConfigError(f"{self.facts.path} has {self.num_documents:,} documents, none numbered {document}.")
        shard = int(np.searchsorted(self._doc_starts, document, side="right")) - 1
        return shard, document - int(self._doc_starts[shard])

    def document_span(self, document: int) -> tuple[int, int]:
        """The tokens [start, end) of a document, in the concatenated stream."""
        shard, row = self._place(document)
        first, index = int(self._starts[shard]), self._idx(shard)
        return first + index.start(row), first + index.start(row + 1)

    def document_spans(self, documents: Ints) -> tuple[Ints, Ints]:
        """The first tokens of many documents, and their ends."""
        for most in (documents.min(), documents.max()) if len(documents) else ():
            self._place(int(most))
        return spans_of(documents, self._doc_starts, self._starts, self._idx)

    def spans(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """The (document, first, last) that tokens [start, end) hold, positions counted inside each document."""
        return spans_between(start, end, self._doc_starts, self._starts, self._idx)

    def document_id(self, document: int) -> str:
        """The id of a document by its number."""
        return str(self._record(document)["id"])

    def _record(self, document: int) -> Record:
        return self.names.record(*self._place(document))

    def document_tables(self, shard: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The ids and sources of a shard's documents, and such of `columns` as are known, some 16,384 at a time."""
        return self.names.tables(shard, 0, int(self.shard_documents()[shard]), columns)

    def locate(self, ids: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the documents with each of these ids; an empty list for an id that is not here."""
        ids = as_names("ids", ids, "an id or a list of ids")
        if self.facts.boundary is None:
            return {text: [] for text in ids}
        starts, counts = self._doc_starts, self.shard_documents()
        places = self.names.locate(ids)
        return {
            text: [int(starts[shard]) + row for shard, row in found if row < counts[shard]]
            for text, found in places.items()
        }

    @property
    def _counts_documents(self) -> bool:
        """Whether the number of documents is known without reading tokens."""
        return self.facts.boundary is not None and bool((self.files.documents >= 0).all())

    def __len__(self) -> int:
        """Documents of all shards."""
        return self.num_documents

    def __bool__(self) -> bool:
        """Whether there is a token; nothing is counted for it."""
        return self.num_tokens > 0

    def __iter__(self) -> Iterator[Document]:
        """Every document, in the order of the store."""
        return map(self.document, range(len(self)))

    @overload
    def __getitem__(self, number: int) -> Document: ...
    @overload
    def __getitem__(self, number: slice) -> list[Document]: ...
    def __getitem__(self, number: int | slice) -> Document | list[Document]:
        """A document by its number, counted from the end if negative, or a list of them by a slice."""
        numbers = range(len(self))
        try:
            found = numbers[number]
        except TypeError:
            raise refuse("The number of a document", "a whole number or a slice of them", number) from None
        except IndexError:
            raise IndexError(f"There is no document {number} in {self!r}.") from None
        return self.document(found) if isinstance(found, int) else [self.document(each) for each in found]

    def document(self, document: int) -> Document:
        """One document by its number, with its id, source, tokens and text."""
        document = as_whole("document", document, None)
        start, end = self.document_span(document)
        record = self._record(document)
        return Document(str(record["id"]), str(record["source"]), self.tokens(start, end), record, self.decode)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """The text of token ids, EOS left out, by the tokenizer that is kept beside the store."""
        ids = as_ids("tokens", tokens)
        kept = ids[ids != self.eos] if self.eos is not None else ids
        return str(self.tokenizer.decode(kept.tolist(), skip_special_tokens=False))

    def encode(self, text: str) -> npt.NDArray[np.generic]:
        """The ids of a text, without EOS, in the store's dtype: those that `prepare` would give it after cleaning."""
        if not isinstance(text, str):
            raise refuse("text", "text", text)
        return encode(self.tokenizer, text, self.eos, self.dtype)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that is kept beside the tokens, as the `tokenizers` library has it."""
        return load_kept(self.facts.tokenizer, self.facts.path)

    @property
    def vocab_size(self) -> int | None:
        """One more than the highest id, as the manifest has it; None where files of others do not tell."""
        return self.facts.vocab_size

    def token_id(self, token: str) -> int | None:
        """The id of a token by its spelling, special ones too; None where no tokenizer is kept, or it has no such."""
        path = self.facts.tokenizer
        if path is None or not place_at(path).exists():
            return None
        found: int | None = self.tokenizer.token_to_id(token)
        return found

    def close(self) -> None:
        """Give maps and temporary files back now rather than when the store is collected."""
        self._indices.clear()
        self.table = None
        self._summed = (-1, np.empty(0, np.uint64))
        if self._scanned is not None:
            self._scanned.cleanup()
            self._scanned = None
