"""Decontamination: documents that share a run of words with an item of an evaluation are dropped, with the match.

Words are compared in lower case; punctuation, symbols and white space only separate them, and soft hyphens and joiners
count for nothing. In scripts without spaces each letter is a word. A match of hashes is checked word by word, so what
is named as a match is one.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import PathLike
from gristmill.core.arrays import Bytes, Hashes, Ints
from gristmill.core.errors import ConfigError, EngineError
from gristmill.core.texts import Texts, from_strings
from gristmill.core.values import OWN, Within, fits
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.characters import DIGIT, EXTEND, KIND, LETTER, SINGLE, characters
from gristmill.curate.documents import Documents
from gristmill.places.address import Address
from gristmill.places.base import Place
from gristmill.places.door import address_of, place_at

Item = tuple[str, Sequence[str]]

# A match is shown by this many characters at most.
_SHOWN = 200
# The filter has 32 to 64 bits for each run: at most 3 % of the runs that are in no item pass it.
_FILTER_BITS = 32
_IGNORED = (0xAD, 0x200C, 0x200D)
# Bytes of a `.npy` file that hold its head, which is 128 long for arrays of one dimension.
_NPY_HEAD = 1024


@dataclass(frozen=True)
class DecontaminateOptions:
    """Which evaluations, and how long a run of words in common is a match.

    ngram: 13 words as GPT-3. A text of fewer words must be found whole, if it has min_words; a shorter one is not
        looked for, and reported.
    fields: the keys of a JSONL record to look for, each by itself; all that hold text where none is named.
    """

    paths: Annotated[Sequence[str], OWN]
    ngram: Annotated[int, OWN] = 13
    min_words: Annotated[int, OWN] = 8
    fields: Annotated[Sequence[str], OWN] = ()

    def __post_init__(self) -> None:
        for name in ("paths", "fields"):
            given = getattr(self, name)
            values = [given] if isinstance(given, str) else given
            if not isinstance(values, Sequence) or not all(isinstance(value, str) for value in values):
                raise ConfigError(f"decontaminate's {name} is a list of text, not {given!r}.")
            object.__setattr__(self, name, tuple(values))
        if not self.paths:
            raise ConfigError("decontaminate needs paths: the files of the evaluations.")
        for name in ("ngram", "min_words"):
            if not fits(getattr(self, name), Annotated[int, Within(1, 1000)]):
                raise ConfigError(
                    f"decontaminate's {name} is a number of words (1 to 1,000), not {getattr(self, name)!r}."
                )
        if self.min_words > self.ngram:
            raise ConfigError(f"decontaminate's min_words ({self.min_words}) is above its ngram ({self.ngram}).")


@dataclass(frozen=True, eq=False)
class RunIndex:
    """The runs of words of all items, sorted by hash: 32 bytes a run and 4 to 8 of filter, mapped from `.npy` files."""

    # Of the words of run i, which is data[begins[i]:ends[i]] and belongs to the item items[i].
    hashes: Hashes
    begins: Ints
    ends: Ints
    data: Bytes
    # The lengths in words that there are, rising, and for each a filter, end to end: one bit for each value of a
    # hash's first bits, whether any run has it.
    lengths: Ints
    filters: Hashes
    filter_offsets: Ints
    items: Ints
    names: Bytes
    name_offsets: Ints

    @property
    def searched(self) -> tuple[Hashes, Ints, Ints, Bytes, Ints, Hashes, Ints]:
        return self.hashes, self.begins, self.ends, self.data, self.lengths, self.filters, self.filter_offsets

    def name(self, run: int) -> str:
        """The item that a run belongs to; the first of them if there are more."""
        return Texts(self.names, self.name_offsets).string(int(self.items[run]))


@dataclass(frozen=True)
class Decontaminate:
    """Drop each document that has a run of words in the index at this folder; the details name item and words."""

    index: str
    name: ClassVar[str] = "decontaminate"

    def judge(self, documents: Documents) -> Verdict:
        from gristmill.curate.decontaminate_kernels import search

        index = open_index(self.index)
        found = np.empty((len(documents), 3), np.int64)
        search(documents.data, documents.offsets, make_folds(), index.searched, found)
        rows = np.flatnonzero(found[:, 0] >= 0).tolist()
        details = {row: f"{index.name(found[row, 0])}: {_shown(documents, *found[row, 1:])}" for row in rows}
        codes = np.where(found[:, 0] >= 0, 0, KEEP).astype(np.int16)
        return Verdict(reasons=("contaminated",), codes=codes, details=details)


def _shown(documents: Documents, begin: int, end: int) -> str:
    """The matched words as they stand in the document, on one line."""
    text = " ".join(documents.data[begin:end].tobytes().decode().split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def texts_of(record: object, wanted: Sequence[str] = ()) -> list[str]:
    """The texts of an evaluation's record: of the keys `wanted`, or all, in lists and mappings too."""
    if not wanted:
        return list(_strings(record))
    values = record if isinstance(record, Mapping) else {}
    missing = [key for key in wanted if key not in values]
    if missing:
        raise ConfigError(f"A record of an evaluation lacks {missing[0]!r}: correct decontaminate's fields.")
    return list(_strings([values[key] for key in wanted]))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(part)


def build_index(items: Iterable[Item], options: DecontaminateOptions, folder: PathLike) -> list[str]:
    """Index the texts of named items in `folder`, with about 40 bytes of memory a byte; items too short to be found."""
    from gristmill.curate.decontaminate_kernels import make_runs

    names, owners, texts = _read(items)
    lengths = np.zeros(len(texts), np.int64)
    if not len(texts):
        raise ConfigError("The evaluations to decontaminate against hold no text: correct decontaminate's paths.")
    runs = make_runs(texts.data, texts.offsets, make_folds(), options.ngram, options.min_words, lengths)
    if not lengths.any():
        raise ConfigError(f"No item of the evaluations has {options.min_words} words: lower decontaminate's min_words.")
    index = _index(runs, lengths, names, owners, texts)
    for name, path in index_files(address_of(folder)).items():
        with place_at(path).writing() as file:
            np.save(file, getattr(index, name))
    searchable = set(owners[lengths > 0].tolist())
    return [name for i, name in enumerate(names) if i not in searchable]


def _read(items: Iterable[Item]) -> tuple[list[str], Ints, Texts]:
    """The names of all items, the item of each text, and the texts, in NFC as cleaned documents are."""
    names: list[str] = []
    owners: list[int] = []
    strings: list[str] = []
    for name, texts in items:
        owners += [len(names)] * len(texts)
        names.append(name)
        strings += [unicodedata.normalize("NFC", text) for text in texts]
    return names, np.array(owners, np.int64), from_strings(strings)


def _index(
    runs: tuple[Hashes, Ints, Ints, Ints], lengths: Ints, names: Sequence[str], owners: Ints, texts: Texts
) -> RunIndex:
    """Sorted and each once: of equal runs the first item's stays."""
    from gristmill.curate.decontaminate_kernels import mark_new

    order = np.argsort(runs[0], kind="stable")
    hashes, (rows, begins, ends) = runs[0][order], (column[order] for column in runs[1:])
    new = np.zeros(len(hashes), np.bool_)
    mark_new(texts.data, hashes, begins, ends, make_folds(), new)
    hashes, (rows, begins, ends) = hashes[new], (column[new] for column in (rows, begins, ends))
    present = np.unique(lengths[lengths > 0])
    filters = [_filter(hashes[lengths[rows] == length]) for length in present]
    filter_offsets = np.cumsum([0, *map(len, filters)], dtype=np.int64)
    named = from_strings(names)
    searched = (hashes, begins, ends, texts.data, present, np.concatenate(filters), filter_offsets)
    return RunIndex(*searched, owners[rows], named.data, named.offsets)


def _filter(hashes: Hashes) -> Hashes:
    from gristmill.curate.decontaminate_kernels import fill_filter

    bits = np.zeros(1 << (_FILTER_BITS * len(hashes) // 64).bit_length(), np.uint64)
    fill_filter(hashes, bits)
    return bits


def index_files(folder: Address) -> dict[str, Address]:
    """The files of an index, by the fields that they hold."""
    return {field.name: folder / f"{field.name}.npy" for field in fields(RunIndex)}


@lru_cache(maxsize=1)
def open_index(folder: str) -> RunIndex:
    """The index at `folder`, mapped: on a disk of their own workers share its pages."""
    try:
        return RunIndex(**{name: _array(place_at(path)) for name, path in index_files(address_of(folder)).items()})
    except (OSError, ValueError) as error:
        raise EngineError(f"The index of evaluations at {folder} cannot be read ({error}): run again.") from error


def _array(place: Place) -> npt.NDArray[Any]:
    """The array of a `.npy` file of ours, where its bytes are mapped."""
    data = place.brought()
    head = io.BytesIO(data[:_NPY_HEAD].tobytes())
    np.lib.format.read_magic(head)
    (size,), _, dtype = np.lib.format.read_array_header_1_0(head)
    return np.frombuffer(data, dtype, size, head.tell())


@cache
def make_folds() -> npt.NDArray[np.int32]:
    """What each character counts as in a word: 1,114,112 numbers, made once a process (0.1 s)."""
    from gristmill.curate import decontaminate_kernels as kernels

    kinds = characters() & KIND
    codes = np.flatnonzero(np.isin(kinds, (LETTER, DIGIT, EXTEND, SINGLE)))
    folds = np.full(len(kinds), kernels.SEPARATOR, np.int32)
    folds[codes] = [_fold(chr(code)) for code in codes.tolist()]
    folds[kinds == EXTEND] |= kernels.MARK
    folds[kinds == SINGLE] |= kernels.SINGLE
    folds[list(_IGNORED)] = kernels.IGNORED
    folds.flags.writeable = False
    return folds


def _fold(character: str) -> int:
    """Its lower case, where that is one character: ς is σ, and ß stays."""
    folded = character.casefold()
    return ord(folded) if len(folded) == 1 else ord(character)
