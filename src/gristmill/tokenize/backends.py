"""The libraries that turn text into ids, each behind one method: `encode(Texts, eos, order) -> Encoded`.

MB/s of one thread with GPT-2's vocabulary: gigatoken 130 to 260, tiktoken 10, tokenizers 2. None of them
applies a template (BOS), and none of them makes a special token out of text. Each is imported when it is chosen.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError, GristmillError, did_you_mean
from gristmill.core.texts import Texts, byte_letters
from gristmill.core.version import version_of
from gristmill.store.format import dtype_for
from gristmill.tokenize.definition import (
    Definition,
    Json,
    added_token,
    hide_specials,
    normalizer_kinds,
    pre_tokenizer_steps,
    special_texts,
    vocab_size,
    without_specials,
)

Ids = npt.NDArray[Any]

SLOWER = {"tiktoken": "about 15 times slower", "tokenizers": "about 100 times slower"}
# What stands after each document that gigatoken is given in one text: a character that Unicode will never assign.
_MARK = "\U0008fffe"
_MARK_BYTES = np.frombuffer(_MARK.encode(), np.uint8)
_new_bytes: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
# Normalizers that do the same to a text before and after such a character as to each of the two by itself.
_APART = {"NFC", "NFD", "NFKC", "NFKD"}


class Encoded(NamedTuple):
    """The ids of documents end to end, the EOS after each, where each begins, and how many of the ids are the EOS."""

    ids: Ids
    offsets: Ints
    ends: int


class Encoder(Protocol):
    """One backend, ready to encode."""

    def encode(self, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        """The ids of documents in this order, all as they come without one, `eos` after each.

        That of a text is counted, and refused by who asked.
        """
        ...


class UnknownToBackend(Exception):
    """A backend cannot run this tokenizer; the message says what it does not know."""


# Not the library's, or understood as they are.
_PLAIN_ERRORS = (GristmillError, OSError, ImportError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit)


def _interrupt(error: BaseException | None) -> BaseException | None:
    """What came, as Ctrl-C does, while compiled code handed its arrays over, which Python makes a SystemError of."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
        if not isinstance(error, Exception):
            return error
    return None


class LibraryErrors:
    """Says in one sentence what a library raises over a file or a text: bare Exceptions, and panics of Rust's.

    No generator with a decorator: each block of a stream comes by here, and it takes three times the calls.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if interrupt := _interrupt(error):
            raise interrupt
        if error is not None and not isinstance(error, _PLAIN_ERRORS):  # a panic is no Exception
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"{self._what}: {reason[:300]}.") from error


class ByteEncoder:
    """The bytes themselves."""

    def encode(self, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        found = texts.ordered(order)
        return Encoded(*ended(found.data.astype(np.uint16), found.offsets, eos), len(found))


class GigatokenEncoder:
    """The fast path, on the calling thread (a pool of processes is the engine's business); where there are other
    threads, without Python's lock.

    All documents of a batch are one text with a mark after each, an added token that becomes the EOS: the calls cost
    one document's, and ids come out as an array, without importing awkward. Where a document holds the mark, or the
    tokenizer would begin a text otherwise than what follows a mark, it is one by one.
    """

    def __init__(self, definition: Definition) -> None:
        try:
            from gigatoken.gigatoken_rs import PadTruncate
        except ImportError as error:
            raise UnknownToBackend("gigatoken is not installed") from error
        hidden = hide_specials(definition.content, definition.eos)
        self._content = without_specials(hidden, definition.eos)
        if missing := unsupported(self._content):
            raise UnknownToBackend(f"gigatoken does not know this tokenizer ({missing})")
        self._whole = PadTruncate(0)  # a single row is never padded
        self._dtype = np.dtype(dtype_for(vocab_size(definition.content)))
        self._mark = vocab_size(self._content)
        marked = _with_mark(self._content, self._mark)
        self._marked = marked and _loaded(marked)
        self._plain = None if self._marked else _loaded(self._content)

    def encode(self, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        count = len(texts) if order is None else len(order)
        if self._marked is not None and count:
            from gristmill.tokenize.kernels import narrow_marks, replace_marks  # which import Numba

            ids, offsets = self._ids(self._marked, _with_marks(texts, order)), np.zeros(count + 1, np.int64)
            out, replace = np.empty(len(ids), self._dtype), narrow_marks if self._dtype == np.uint16 else replace_marks
            if (ends := replace(ids, self._mark, eos, out, offsets)) == count:  # so none is a document's
                return Encoded(out, offsets, ends)
        self._plain = self._plain or _loaded(self._content)
        documents = _documents(texts.ordered(order))
        return join((self._ids(self._plain, bytes(document)) for document in documents), eos)

    def _ids(self, tokenizer: Any, text: bytes) -> Ids:
        """The ids of one text. The method for a single one keeps Python's lock, that for lists imports awkward, and
        that for rows of one width copies: 13.1 and 14.3 ns a token, the least of six, loaded.
        """
        if _works_alone():
            alone: Ids = tokenizer.encode(text)
            return alone
        from gigatoken.gigatoken_rs import BytesSource

        ids: Ids = tokenizer.encode_batch_padded(BytesSource(text), self._whole, parallel=False)[0][0]
        return ids


def _works_alone() -> bool:
    """Whether nobody here would miss Python's lock for 4 ms: daemons, as our processes have them, watch and wait."""
    return threading.active_count() == 1 or all(
        thread.daemon for thread in threading.enumerate() if thread is not threading.current_thread()
    )


def _documents(texts: Texts) -> list[memoryview]:
    data = memoryview(texts.data.data)
    return [data[first:end] for first, end in itertools.pairwise(texts.offsets.tolist())]


def _with_marks(texts: Texts, order: Ints | None) -> bytes:
    """Texts in this order with a mark after each, written by a kernel into bytes that nobody has seen yet: gigatoken
    takes no other memory without a copy, and a slice for each text took as long as the texts did.
    """
    from gristmill.tokenize.kernels import join_marked  # which imports Numba

    begins, ends = texts.offsets[:-1], texts.offsets[1:]
    size = int(texts.offsets[-1] - texts.offsets[0])
    if order is not None:
        begins, ends = begins[order], ends[order]
        size = int(ends.sum() - begins.sum())
    made: bytes = _new_bytes(None, size + len(begins) * len(_MARK_BYTES))
    address = np.frombuffer(made, np.uint8).__array_interface__["data"][0]
    join_marked(texts.data, begins, ends, _MARK_BYTES, address)
    return made


def _with_mark(content: Json, id: int) -> Json | None:
    """A tokenizer that knows the mark; None where a text might be other ids after one than at a beginning."""
    steps = pre_tokenizer_steps(content)
    spaced = any(step.get("add_prefix_space", True) for step in steps if step["type"] == "ByteLevel")
    if content["model"].get("byte_fallback") or spaced or not normalizer_kinds(content) <= _APART:
        return None
    return {**content, "added_tokens": [*(content.get("added_tokens") or []), added_token(_MARK, id)]}


def _loaded(content: Json) -> Any:
    from gigatoken.gigatoken_rs import load_hf_json

    try:
        return load_hf_json(msgspec.json.encode(content).decode())  # 9 ms for gpt2, Python's json 43
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnknownToBackend(f"gigatoken does not know this tokenizer ({reason})") from error


def unsupported(content: Json) -> str | None:
    """The part of this tokenizer that gigatoken would read and pass over in silence; None where all is well.

    It refuses what else it does not know. These were found by comparing it (0.10.0) with the tokenizers library on some
    forty small variations of one file: a start-up sample might miss them.
    """
    model = content["model"]
    for affix in ("end_of_word_suffix", "continuing_subword_prefix"):
        if model.get(affix):
            return affix
    if not model.get("byte_fallback") and not _cuts_like_gigatoken(pre_tokenizer_steps(content)):
        return "pre_tokenizer"
    return _unsupported_added_token(content)


def _cuts_like_gigatoken(steps: list[Json]) -> bool:
    """One ByteLevel with its own pattern, or Splits and then a ByteLevel that only maps bytes."""
    if not steps or steps[-1]["type"] != "ByteLevel":
        return False
    *splits, last = steps
    if not splits:
        return bool(last.get("use_regex", True))
    plain = not last.get("use_regex", True) and not last.get("add_prefix_space", True)
    kinds = {(step["type"], step.get("behavior"), step.get("invert", False)) for step in splits}
    return plain and kinds <= {("Split", "Isolated", False), ("Split", "Removed", True)}  # which keep everything


def _unsupported_added_token(content: Json) -> str | None:
    for token in content.get("added_tokens") or []:
        flags = ["single_word", "lstrip", "rstrip"] + ["normalized"] * bool(content.get("normalizer"))
        for flag in flags:
            if token.get(flag):
                return f"{flag} of the added token {token['content']!r}"
    return None


class TiktokenEncoder:
    """The reference for OpenAI's encodings."""

    def __init__(self, definition: Definition) -> None:
        import tiktoken

        content = definition.content
        specials = special_texts(content, definition.eos)
        vocab: dict[str, int] = content["model"]["vocab"]
        to_byte = {letter: byte for byte, letter in enumerate(byte_letters())}
        self._encoding = tiktoken.Encoding(
            definition.name,
            pat_str=definition.pattern,
            mergeable_ranks={
                bytes(map(to_byte.__getitem__, text)): id for text, id in vocab.items() if text not in specials
            },
            special_tokens={text: vocab[text] for text in specials},
        )

    def encode(self, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        encode = self._encoding.encode_to_numpy
        return join((encode(text, disallowed_special=()) for text in texts.ordered(order).strings()), eos)


class TokenizersEncoder:
    """The reference for every `tokenizer.json`, and the backend for those that gigatoken does not know.

    `encode_special_tokens` keeps special tokens text. (Taking them out of the file would not do: the library
    then numbers the remaining added tokens anew.) One document a call stays on one thread.
    """

    def __init__(self, definition: Definition) -> None:
        from tokenizers import Tokenizer

        content = hide_specials(definition.content, definition.eos)
        for token in content.get("added_tokens") or []:
            token["special"] = token.get("special", False) or token["id"] == definition.eos
        self._tokenizer = Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
        self._tokenizer.encode_special_tokens = True

    def encode(self, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        encode = self._tokenizer.encode_batch_fast
        rows = (encode([text], add_special_tokens=False)[0].ids for text in texts.ordered(order).strings())
        return join((np.array(ids, np.uint32) for ids in rows), eos)


def join(rows: Iterable[npt.NDArray[np.uint32]], eos: int) -> Encoded:
    """Rows of ids end to end, `eos` after each."""
    arrays = list(rows)
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    ids, offsets = ended(np.concatenate([np.empty(0, np.uint32), *arrays]), offsets, eos)
    return Encoded(ids, offsets, int(np.count_nonzero(ids == eos)))


def ended(ids: Ids, offsets: Ints, eos: int) -> tuple[Ids, Ints]:
    """The same documents with `eos` after each."""
    return np.insert(ids, offsets[1:], eos), offsets + np.arange(len(offsets))


def without_eos(ids: Ids, offsets: Ints) -> tuple[Ids, Ints]:
    """Documents that end with the EOS without it."""
    return np.delete(ids, offsets[1:] - 1), offsets - np.arange(len(offsets))


def without_silent(ids: Ids, offsets: Ints, silent: Mask) -> tuple[Ids, Ints]:
    """Documents that end with the EOS, without those that are `silent`: the EOS alone."""
    kept = np.append(True, ~silent)
    return np.delete(ids, offsets[:-1][silent]), (offsets - np.append(0, np.cumsum(silent)))[kept]


_ENCODERS: dict[str, Callable[[Definition], Encoder]] = {
    "byte": lambda _: ByteEncoder(),
    "gigatoken": GigatokenEncoder,
    "tiktoken": TiktokenEncoder,
    "tokenizers": TokenizersEncoder,
}


def build_encoder(definition: Definition, backend: str) -> Encoder:
    """An encoder of the named backend; UnknownToBackend where it cannot run this tokenizer."""
    return _ENCODERS[backend](definition)


def choose_backend(definition: Definition, wanted: str | None) -> tuple[str, Encoder, str]:
    """The backend's name, its encoder, and a note for the user where it is not the fast one."""
    reference = definition.reference
    possible = ("byte",) if reference == "byte" else ("gigatoken", reference)
    if wanted is not None and wanted not in possible:
        hint = did_you_mean(wanted, possible)
        raise ConfigError(f"The tokenizer {definition.name}: no backend {wanted!r}{hint}.")
    if wanted is not None or reference == "byte":
        backend = wanted or "byte"
        return backend, _build_wanted(definition, backend), ""
    try:
        return "gigatoken", build_encoder(definition, "gigatoken"), ""
    except UnknownToBackend as unknown:
        note = f"{unknown}: using {reference}, {SLOWER[reference]}"
        return reference, build_encoder(definition, reference), note


def _build_wanted(definition: Definition, backend: str) -> Encoder:
    try:
        return build_encoder(definition, backend)
    except UnknownToBackend as unknown:
        raise ConfigError(
            f"tokenizer {definition.name}: {unknown}; leave backend= out, or give {definition.reference!r}"
        ) from unknown


def backend_versions(backend: str) -> dict[str, str]:
    """The library that shapes the ids, with its version; the byte tokenizer needs none."""
    return {} if backend == "byte" else {backend: version_of(backend)}


def installed_versions() -> dict[str, str]:
    """Every library that chooses a backend or checks it, as far as it is installed."""
    found = {}
    for library in ("gigatoken", "tiktoken", "tokenizers"):
        with suppress(PackageNotFoundError):
            found[library] = version_of(library)
    return found
