"""Near duplicates: MinHash-LSH finds candidates, real Jaccard similarity decides.

Narrow: `sign` gives each document its band keys. Wide: documents that share a key in a band are candidate pairs.
Narrow again: the shingle sets of candidates are compared. Then, in the order of the keep rule, a document goes exactly
if it is verified to be near to one that stays. `near_duplicates` does all but the signing.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.core.kept_tables import kept_table
from gristmill.core.options import check_fields
from gristmill.core.values import Seed, Within
from gristmill.curate.characters import UNSPACED, ranges
from gristmill.curate.documents import Documents

# Which of several near documents stays: the one with the smallest (keep key, doc).
Keep = Literal["first", "longest", "priority"]
# A pair at the threshold must share a bucket with at least this probability.
_RECALL = 0.9
# In scripts without spaces each character is a unit of its own, and so are the half-width voicing marks of kana. The
# rules' words know more such scripts; but units are in saved indexes, and change with `index.VERSION` or not at all.
_ALONE = f"{UNSPACED} FF9E-FF9F"
# Beyond plane 3 nothing is a letter: tags, variation selectors, private use.
_LETTERS_END = 0x40000


@dataclass(frozen=True)
class Near:
    """Drop documents whose shingle set has a Jaccard similarity of `threshold` or more to one that stays.

    `bands` x `rows` minima are compared, by default the largest `rows` that divides `permutations` and finds a pair at
    the threshold with probability 0.9: 16 x 8 for 0.8 and 128. Buckets of up to `max_bucket` documents give all their
    pairs. Without `verify` every candidate counts as near. `index` is a folder that `save_index` wrote.
    """

    name: ClassVar[str] = "near"
    threshold: float = 0.8
    permutations: Annotated[int, Within(1, 16_384)] = 128
    ngram: Annotated[int, Within(1, 10_000)] = 5
    unit: Literal["word", "char"] = "word"
    keep: Keep = "first"
    verify: bool = True
    bands: int | None = None
    rows: int | None = None
    index: str | None = None
    max_bucket: Annotated[int, Within(2, 2**31)] = 100
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self, "dedup: near")
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"dedup: near: threshold must be above 0 and at most 1, not {self.threshold}.")
        self.shape  # noqa: B018 - refuses bands and rows that do not fit

    @property
    def shape(self) -> tuple[int, int]:
        """(bands, rows), those given or chosen by the threshold."""
        if self.rows is None and self.bands is None:
            rows = _best_rows(self.permutations, self.threshold)
            return self.permutations // rows, rows
        bands = self.bands if self.bands is not None else self.permutations // max(self.rows or 1, 1)
        rows = self.rows if self.rows is not None else self.permutations // max(bands, 1)
        if bands < 1 or rows < 1 or bands * rows > self.permutations:
            raise ConfigError(f"dedup: near: {bands} bands of {rows} rows do not fit {self.permutations} permutations.")
        return bands, rows

    @property
    def key_columns(self) -> list[str]:
        """The columns of band keys: key_00, key_01, ..."""
        return [f"key_{band:02d}" for band in range(self.shape[0])]


def _best_rows(permutations: int, threshold: float) -> int:
    divisors = [rows for rows in range(1, permutations + 1) if permutations % rows == 0]
    good = [rows for rows in divisors if 1 - (1 - threshold**rows) ** (permutations // rows) >= _RECALL]
    if not good:
        raise ConfigError(f"dedup: near: a threshold of {threshold} needs more than {permutations} permutations.")
    return max(good)


@functools.cache
def permutations(count: int, seed: int) -> npt.NDArray[np.uint32]:
    """The keys (row 0) and odd factors (row 1) of `count` permutations of 32-bit numbers."""
    drawn = [[derive_key(seed, row, i) >> 32 for i in range(count)] for row in ("minhash key", "minhash factor")]
    table = np.array(drawn, np.uint32)
    table[1] |= 1
    return table


def sign(batch: pa.RecordBatch, options: Near, priorities: Mapping[str, int]) -> pa.RecordBatch:
    """The rows (doc, keep_key, key_00, ...) of documents that have a letter or digit; others are nobody's duplicate."""
    from gristmill.curate.dedup import shingle_kernels

    documents = Documents(batch)
    bands, rows = options.shape
    found = np.empty(len(documents), np.int64)
    keys = np.empty((bands, len(documents)), np.int64)
    drawn = permutations(options.permutations, options.seed)
    count = shingle_kernels.sign(
        documents.data, documents.offsets, unit_table(), options.unit == "char", options.ngram, drawn, rows, found, keys
    )
    found = found[:count]
    columns = [np.asarray(batch.column("doc"))[found], keep_keys(documents, options.keep, priorities)[found]]
    columns.extend(band[:count] for band in keys)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=signature_schema(options))


def keep_keys(documents: Documents, keep: Keep, priorities: Mapping[str, int]) -> Ints:
    """By document: 0 (first), minus its bytes (longest), or minus its source's priority, 0 if it has none."""
    if keep == "longest":
        return np.asarray(-np.diff(documents.offsets))
    if keep == "priority":
        encoded = pc.dictionary_encode(documents.batch.column("source"))
        keys = np.array([-priorities.get(source, 0) for source in encoded.dictionary.to_pylist()], np.int64)
        return np.asarray(keys[np.asarray(encoded.indices)])
    return np.zeros(len(documents), np.int64)


def signature_schema(options: Near) -> pa.Schema:
    """The columns of a file of signatures: all int64."""
    return pa.schema([(name, pa.int64()) for name in ("doc", "keep_key", *options.key_columns)])


@functools.cache
def unit_table() -> npt.NDArray[np.uint32]:
    """By code point: 0 for a separator, else twice the lower-cased code point, plus 1 in a script without spaces.

    Letters, marks and numbers of any script make words; all else separates. 2^21 entries, so that no sequence of four
    bytes leads outside; pages never read take no memory. By Python's Unicode version.
    """
    table = np.zeros(1 << 21, np.uint32)
    table[:_LETTERS_END] = _units()
    table.setflags(write=False)
    return table


@kept_table
def _units() -> npt.NDArray[np.uint32]:
    table = np.zeros(_LETTERS_END, np.uint32)
    for code in range(_LETTERS_END):
        character = chr(code)
        if unicodedata.category(character)[0] in "LMN":
            table[code] = 2 * ord(character.lower()[0])
    for begin, end in ranges(_ALONE):
        table[begin:end] |= (table[begin:end] > 0).astype(np.uint32)
    return table
