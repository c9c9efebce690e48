"""Documents as rows of a table, before and after the steps of a chain: numbered when they come, hashed when they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.hashing import hash_ids
from gristmill.curate.digests import content_hashes, text_digests
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Passed:
    """A batch after its steps: the rows of documents that stay, and those of documents that left, by step."""

    kept: pa.RecordBatch
    dropped: list[pa.Table]


def document_schema(fields: Sequence[str]) -> pa.Schema:
    """Documents between stages. `hash_*` are the halves of the text's digest, `edits` a bit for each step."""
    import pyarrow as pa

    numbers = ("row", "id_hash", "bytes", "content_hash", "hash_hi", "hash_lo", "keep_key")
    names = [("doc", pa.int64()), *((name, pa.string()) for name in ("id", "source", "path")),
             *((name, pa.int64()) for name in numbers), ("edits", pa.int64()), ("text", pa.large_string())]  # fmt: skip
    return pa.schema([*names, *((name, pa.string()) for name in fields)])


def start_documents(batch: pa.RecordBatch, first: int) -> Documents:
    """A batch as it was read, numbered from `first`, with no step's mark on it yet."""
    import pyarrow as pa

    numbers, marks = np.arange(first, first + len(batch)), np.zeros(len(batch), np.int64)
    return Documents(batch.add_column(0, "doc", pa.array(numbers)).append_column("edits", pa.array(marks)))


def passed(documents: Documents, ledger: Ledger, schema: pa.Schema, keep_key: int | None = None) -> Passed:
    """What is left, with size and hashes of the text as it is now, and a keep key if given; and what has left."""
    import pyarrow as pa

    high, low = text_digests(documents)
    ids = hash_ids(documents.batch.column("id").to_pylist()).view(np.int64)
    made: dict[str, Any] = {"id_hash": ids, "bytes": np.diff(documents.offsets), "hash_hi": high, "hash_lo": low,
                            "content_hash": content_hashes(documents)}  # fmt: skip
    if keep_key is not None:
        made["keep_key"] = np.full(len(documents), keep_key)
    have = {**{name: documents.batch.column(name) for name in documents.batch.schema.names}, **made}
    columns = [have.get(field.name, pa.nulls(len(documents), field.type)) for field in schema]
    kept = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)
    return Passed(kept, ledger.take_dropped())
