"""Documents whose texts are equal byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import xxhash

from gristmill.core.values import check_kinds, kinds_of
from gristmill.curate.dedup.keep import keep_keys
from gristmill.curate.dedup.queries import alive, with_dropped
from gristmill.engine.base import Engine

if TYPE_CHECKING:
    import pyarrow as pa

    from gristmill.curate.documents import Documents, Ints

_COLUMNS = "doc, keep_key, hash_hi, hash_lo"


@dataclass(frozen=True)
class Exact:
    """Drop documents whose text another one has; `keep`: the first in the order of the input, or by `priority`."""

    name: ClassVar[str] = "exact"
    keep: Literal["first", "priority"] = "first"

    def __post_init__(self) -> None:
        check_kinds(vars(self), kinds_of(Exact), "dedup: exact")


def content_hashes(documents: Documents) -> Ints:
    """What a store keeps of each text, and its split depends on: the low 64 bits of the xxh3-128 of its bytes."""
    view, offsets = memoryview(documents.data.data), documents.offsets.tolist()
    digest = xxhash.xxh3_128_digest
    digests = b"".join([digest(view[a:b]) for a, b in itertools.pairwise(offsets)])
    return np.ascontiguousarray(np.frombuffer(digests, ">i8")[1::2].astype(np.int64))


def text_digests(documents: Documents) -> tuple[Ints, Ints]:
    """128 bits of each text, in halves: they alone decide which texts are equal, and nobody can forge them."""
    from gristmill.curate.blake2_kernels import digests

    halves = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
    digests(documents.data, documents.offsets, *halves)
    return halves


def hash_documents(documents: Documents, options: Exact, priorities: Mapping[str, int]) -> pa.RecordBatch:
    """The rows (doc, keep_key, hash_hi, hash_lo) that `exact_duplicates` compares."""
    import pyarrow as pa

    columns = [keep_keys(documents, options.keep, priorities), *text_digests(documents)]
    arrays = [documents.batch.column("doc"), *(pa.array(column) for column in columns)]
    return pa.RecordBatch.from_arrays(arrays, names=_COLUMNS.split(", "))


def exact_duplicates(engine: Engine, hashes: Sequence[Path], dropped: Sequence[Path], out: Path) -> None:
    """Write the rows (doc, kept) of documents that go, in the order of doc; those in `dropped` (doc) do not count."""
    sql = f"""
        WITH alive AS {alive("hashes", _COLUMNS, dropped)},
        shared AS (SELECT hash_hi, hash_lo FROM alive GROUP BY hash_hi, hash_lo HAVING COUNT(*) > 1),
        ranked AS (
            SELECT alive.doc, FIRST_VALUE(alive.doc) OVER (
                PARTITION BY alive.hash_hi, alive.hash_lo ORDER BY alive.keep_key, alive.doc
            ) AS kept
            FROM alive JOIN shared ON alive.hash_hi = shared.hash_hi AND alive.hash_lo = shared.hash_lo
        )
        SELECT doc, kept FROM ranked WHERE doc <> kept ORDER BY doc
    """
    engine.query(sql, with_dropped({"hashes": hashes}, dropped), out)
