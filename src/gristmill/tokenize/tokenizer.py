"""A tokenizer that a store can trust: loaded by name, fast where it can be, checked against the reference.

tokenizer = load_tokenizer("gpt2")
ids, offsets = tokenizer.encode_batch(["Hello world", "a <|endoftext|> in a document stays text"])
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, SourceError, did_you_mean
from gristmill.core.hashing import hash64
from gristmill.core.kept import keep, read_kept
from gristmill.core.texts import Texts, arrow_texts
from gristmill.core.values import check_kinds
from gristmill.places.door import place_at
from gristmill.store.format import dtype_for
from gristmill.tokenize.backends import (
    Encoder,
    Ids,
    LibraryErrors,
    backend_versions,
    build_encoder,
    choose_backend,
    installed_versions,
    without_eos,
)
from gristmill.tokenize.definition import Definition, content_fingerprint, is_lossless, vocab_size
from gristmill.tokenize.encodings import NAMES, file_definition, named_definition
from gristmill.tokenize.files import hub_definition, local_definition
from gristmill.tokenize.sample import digest, require_equal, require_same_text, sample_for

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Decoder


GROWTH = 512 << 20
LOOK_EVERY = 16 << 20
BLIND_BYTES = 128 << 20
# Of tokenizers this long the outcome of the check is kept, with all of their content; shorter ones are checked at once.
KEPT_LENGTH = 1 << 18
TextColumn: TypeAlias = pa.StringArray | pa.LargeStringArray | Sequence[str]


def resident_bytes() -> int | None:
    """Memory that this process holds now; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


@dataclass
class Budget:
    """What one encoder may take before it is built anew: gigatoken's remembers every word it has seen.

    Its memory grows with new words, not with bytes: 70 MB over 700 MB of sources and prose, but 7 MB for each MB of
    random words and of unspaced Chinese (0.9 GB after 150 MB). Building it again takes 0.1 s and gives the memory back.
    So it is rebuilt when the process has grown by 512 MB since it was built, looked at every 16 MB of text; where the
    system does not tell (no /proc), after 128 MB of text, which costs about a tenth of the speed.
    """

    started_with: int | None = field(default_factory=resident_bytes)
    encoded: int = 0
    looked_at: int = 0

    def spend(self, size: int) -> bool:
        """Count `size` more bytes of text; True when the encoder should go."""
        self.encoded += size
        if self.encoded - self.looked_at < LOOK_EVERY:
            return False
        self.looked_at = self.encoded
        now = resident_bytes()
        if now is None or self.started_with is None:
            return self.encoded >= BLIND_BYTES
        return now - self.started_with > GROWTH


def flat_texts(texts: TextColumn | Texts) -> Texts:
    """The documents of an Arrow string array (no copy) or of a list of strings (one copy). Null is empty."""
    found = texts if isinstance(texts, Texts) else arrow_texts(_arrow_strings(texts))
    first, last = int(found.offsets[0]), int(found.offsets[-1])
    return Texts(found.data[first:last], found.offsets - first if first else found.offsets)


def _arrow_strings(texts: TextColumn) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else []
    if not isinstance(texts, pa.Array):
        return _from_list(texts)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise ConfigError(f"texts must be string or large_string, not {texts.type}: cast the column first.")
    return texts.fill_null("") if texts.null_count else texts


def _from_list(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(texts) if text.encode("utf-8", "ignore").decode() != text)
        raise SourceError(f"Row {row} of the batch is not valid Unicode ({error.reason}): clean it first.") from error


def load_tokenizer(name: str, *, eos: int | str | None = None, backend: str | None = None) -> Tokenizer:
    """The tokenizer `name`, checked.

    `name` is `byte`, `gpt2`, another of OpenAI's encodings, a path to a `tokenizer.json` (or to its
    directory) or to a `.tiktoken` file, or a Hugging Face name. `eos` is the token or id that ends documents,
    for a `tokenizer.json` that does not make it plain. `backend` forces `gigatoken`, or the reference
    library.
    """
    name = os.fspath(name) if isinstance(name, os.PathLike) else name
    check_kinds({"tokenizer": name, "eos": eos}, {"tokenizer": str, "eos": int | str | None}, "load_tokenizer")
    with LibraryErrors(f"tokenizer {name} cannot be used"):
        definition = _find(name, eos)
        return _kept(definition, backend) or _checked(definition, backend)


def _kept(definition: Definition, backend: str | None) -> Tokenizer | None:
    """The tokenizer as it was checked on this machine, if libraries and content are those of now.

    Its encoder, which is built when it is first needed, must give the ids of the sample that the check agreed on.
    """
    if len(definition.json) < KEPT_LENGTH:
        return None
    found = read_kept(Path(__file__), _kept_name(definition, backend))
    kept: Tokenizer | None = pickle.loads(found) if found else None  # of our own making, and whole
    return kept if kept and kept.checked_as == (definition, installed_versions()) else None


def _checked(definition: Definition, backend: str | None) -> Tokenizer:
    made = Tokenizer(definition, backend)
    made.check()
    if len(definition.json) >= KEPT_LENGTH:
        keep(Path(__file__), _kept_name(definition, backend), pickle.dumps(made))
    return made


def _kept_name(definition: Definition, backend: str | None) -> str:
    """One name for all versions of a tokenizer, so that the last one alone is kept."""
    return f"tokenizer-{hash64(repr((definition.name, definition.eos, backend))):016x}"


def _find(name: str, eos: int | str | None) -> Definition:
    path = Path(place_at(name).path).expanduser()
    if name in NAMES:
        return _with_own_eos(named_definition(name), eos)
    if place_at(path).is_file() and path.suffix == ".tiktoken":
        return _with_own_eos(file_definition(path), eos)
    if place_at(path).exists():
        return local_definition(path, eos)
    if path.suffix in (".json", ".tiktoken") or path.is_absolute() or name.startswith((".", "~")):
        raise ConfigError(f"The tokenizer {name}: there is no such file.")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return hub_definition(name, eos)
    hint = did_you_mean(name, NAMES)
    raise ConfigError(f"There is no tokenizer {name!r}{hint}. A tokenizer.json or a Hugging Face org/name works too.")


def _with_own_eos(definition: Definition, eos: int | str | None) -> Definition:
    """Named encodings have one EOS: asking for another is a mistake to hear about."""
    if eos not in (None, definition.eos, "<|endoftext|>"):
        raise ConfigError(
            f"The tokenizer {definition.name} ends documents with id {definition.eos}: leave eos= out.", arguments="eos"
        )
    return definition


class Tokenizer:
    """Text to ids and back. Made by `load_tokenizer`.

    It can be pickled: what travels is its content (about 2 MB for GPT-2), and the encoder is built in the
    process that first encodes, where it must reproduce the sample that was checked. One thread encodes;
    memory is bounded (see `Budget`).
    """

    name: str
    vocab_size: int
    """One more than the highest id, special ids included."""
    eos: int
    """The id that the writer puts after each document; no text encodes to it."""
    backend: str
    fingerprint: str
    """Names vocabulary, merges, splitting and EOS; the same with every backend and on every path."""
    note: str
    """Something the user should know, such as a slow backend; else empty."""

    def __init__(self, definition: Definition, backend: str | None = None) -> None:
        content = definition.content
        self._definition = definition
        self.name, self.eos = definition.name, definition.eos
        self.vocab_size = vocab_size(content)
        self.fingerprint = content_fingerprint(content, definition.eos)
        self._sample, self._lossless = sample_for(content, definition.eos), is_lossless(content)
        self.backend, encoder, self.note = choose_backend(definition, backend)
        self.versions = backend_versions(self.backend)
        self._encoder: Encoder | None = encoder
        self._decoder: Decoder | None = None
        self._digest: int | None = None
        self._libraries = installed_versions()
        self._budget = Budget()

    def __repr__(self) -> str:
        facts = f"vocab_size={self.vocab_size}, eos={self.eos}, backend={self.backend!r}"
        return f"Tokenizer({self.name!r}, {facts})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_encoder": None, "_decoder": None, "_budget": Budget()}

    @property
    def checked_as(self) -> tuple[Definition, dict[str, str]]:
        """What its check stands on: the content, and the libraries that were there."""
        return self._definition, self._libraries

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """uint16 up to 65,536 ids, else uint32."""
        return np.dtype(dtype_for(self.vocab_size))

    def encode_batch(self, texts: TextColumn) -> tuple[Ids, Ints]:
        """All ids end to end, and int64 offsets: document i is `ids[offsets[i]:offsets[i + 1]]`.

        No EOS is added. Takes an Arrow string array, whose buffers are read in place, or a list of strings.
        """
        return without_eos(*self.encode_ended(texts))

    def encode_ended(self, texts: TextColumn | Texts, order: Ints | None = None) -> tuple[Ids, Ints]:
        """As `encode_batch`, with the EOS after each document; one without tokens is its EOS alone.

        order: the rows that are wanted, as they are to come; to put texts in another order takes no time here.
        """
        flat = flat_texts(texts)
        with LibraryErrors(f"tokenizer {self.name} cannot encode a text"):
            ids, offsets, ends = self._ready_encoder().encode(flat, self.eos, order)
        ids = ids.astype(self.dtype, copy=False)
        if ends != len(offsets) - 1:  # the last guard: whatever libraries did, no EOS leaves but after a document
            raise self._forged_eos(ids, offsets, order)
        if self._budget.spend(len(flat.data)):
            self._encoder = None
        return ids, offsets

    def decode(self, ids: Sequence[int] | npt.NDArray[Any]) -> str:
        """The text of these ids, by the `tokenizer.json` that a store keeps; special tokens are spelt out."""
        text: str = self._ready_decoder().decode(np.asarray(ids).tolist(), skip_special_tokens=False)
        return text

    def token_id(self, token: str) -> int | None:
        """The id of a token by its spelling, special ones too; None where it has no such."""
        found: int | None = self._ready_decoder().token_to_id(token)
        return found

    def _ready_decoder(self) -> Decoder:
        if self._decoder is None:
            from tokenizers import Tokenizer as Decoder  # encoding may not need it

            self._decoder = Decoder.from_str(self._definition.json)
        return self._decoder

    def to_json(self) -> str:
        """A Hugging Face `tokenizer.json` that decodes whatever this tokenizer encodes."""
        return self._definition.json

    def check(self) -> None:
        """Encode a fixed sample here and with the reference library; ConfigError where the ids differ.

        Where the tokenizer is lossless, the sample must also come back from its ids. `load_tokenizer` runs
        this (about 0.2 s) once a machine: a new version of a library is checked anew, so that it cannot change a corpus
        unseen.
        """
        texts, reference = self._sample, self._definition.reference
        self._digest = None
        got = self.encode_ended(texts)
        if self.backend != reference:
            want = build_encoder(self._definition, reference).encode(flat_texts(texts), self.eos)[:2]
            who = f"tokenizer {self.name}: {self.backend} {self.versions[self.backend]} and {reference}"
            require_equal(texts, got, want, who, f"load it with backend={reference!r}")
        if self._lossless:
            ids, offsets = got
            for row, text in enumerate(texts):
                require_same_text(text, self.decode(ids[offsets[row] : offsets[row + 1] - 1]), self.name)
        self._digest = digest(*got)

    def _ready_encoder(self) -> Encoder:
        """The encoder, rebuilt where it was dropped: after unpickling, or for memory's sake."""
        if self._encoder is None:
            encoder = build_encoder(self._definition, self.backend)
            self._require_digest(encoder)
            self._encoder = encoder
            self._budget = Budget()
        return self._encoder

    def _require_digest(self, encoder: Encoder) -> None:
        if self._digest is None:
            return
        if digest(*encoder.encode(flat_texts(self._sample), self.eos)[:2]) != self._digest:
            here, there = backend_versions(self.backend), self.versions
            raise ConfigError(
                f"tokenizer {self.name}: this process ({here}) gives other ids than the one that "
                f"loaded it ({there}): install the same version of {self.backend} on every machine"
            )

    def _forged_eos(self, ids: Ids, offsets: Ints, order: Ints | None) -> SourceError:
        """The error for a text that became an EOS."""
        found = ids == self.eos
        found[offsets[1:] - 1] = False
        place = int(np.searchsorted(offsets, int(found.argmax()), side="right")) - 1
        row = place if order is None else int(order[place])
        return SourceError(
            f"row {row} of the batch holds text that {self.name} encodes to its end-of-document id "
            f"{self.eos}: remove it, since it would split the document"
        )


def encode_batch(batch: pa.RecordBatch, tokenizer: Tokenizer) -> pa.RecordBatch:
    """`batch` with its column `text` replaced, in place, by `tokens`: lists of ids with the EOS at their end.

    A document without tokens gets an empty list, not a lone EOS: the writer drops and counts it. The ids go
    into Arrow without a copy, as large lists (64-bit offsets) of uint16 or uint32.
    """
    column = batch.schema.get_field_index("text")
    if column < 0:
        raise ConfigError(f"The batch has no column 'text'{did_you_mean('text', batch.schema.names)}.")
    ids, offsets = tokenizer.encode_ended(batch.column(column))
    silent = np.diff(offsets) == 1
    if silent.any():
        ids, offsets = np.delete(ids, offsets[:-1][silent]), offsets - np.append(0, np.cumsum(silent))
    columns, names = list(batch.columns), list(batch.schema.names)
    columns[column], names[column] = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids)), "tokens"
    return pa.RecordBatch.from_arrays(columns, names=names)
