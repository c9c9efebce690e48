"""Documents as rows of a table, before and after the steps of a chain: numbered when they come, hashed when they go."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.hashing import hash_ids
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger


@dataclass(frozen=True)
class Passed:
    """A batch after its steps: the rows of documents that stay, and those of documents that left, by step."""

    kept: pa.RecordBatch
    dropped: list[pa.Table]


def start_documents(batch: pa.RecordBatch, first: int) -> Documents:
    """A batch as it was read, numbered from `first`, with no step's mark on it yet."""
    numbers, marks = np.arange(first, first + len(batch)), np.zeros(len(batch), np.int64)
    return Documents(batch.add_column(0, "doc", pa.array(numbers)).append_column("edits", pa.array(marks)))


def passed(documents: Documents, ledger: Ledger) -> Passed:
    """What is left, with size and hashes of each text as it is now; and what has left."""
    batch = documents.batch
    high, low = text_digests(documents)
    made = {"id_hash": hash_ids(batch.column("id").to_pylist()).view(np.int64), "bytes": np.diff(documents.offsets),
            "content_hash": content_hashes(documents), "hash_hi": high, "hash_lo": low}  # fmt: skip
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **made}
    return Passed(pa.record_batch(columns), ledger.take_dropped())


def content_hashes(documents: Documents) -> Ints:
    """What a store keeps of each text, and its split depends on: the low 64 bits of the xxh3-128 of its bytes."""
    view, offsets = memoryview(documents.data.data), documents.offsets.tolist()
    digest = xxhash.xxh3_128_digest
    digests = b"".join([digest(view[a:b]) for a, b in itertools.pairwise(offsets)])
    return np.ascontiguousarray(np.frombuffer(digests, ">i8")[1::2].astype(np.int64))


def text_digests(documents: Documents) -> tuple[Ints, Ints]:
    """128 bits of each text, in halves: they alone decide which texts are equal, and nobody can forge them."""
    from gristmill.core.kernels.blake2 import digests

    halves = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
    digests(documents.data, documents.offsets, *halves)
    return halves
