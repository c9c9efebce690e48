"""The account of a chain: what each step left, dropped and edited, and the rows of the documents that went.

Documents are rows of a table before and after the steps: numbered when they come, hashed when they go.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.hashing import hash_ids
from gristmill.curate.base import Verdict
from gristmill.curate.documents import Documents

READ = "read"


def step_names(names: Iterable[str]) -> list[str]:
    """What the account calls each step of a chain: `length`, and `length-2` where one of that name came before it."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in found:
            own, number = f"{name}-{number + 1}", number + 1
        found.append(own)
    return found


@dataclass
class Ledger:
    """Counts of documents of one source by step, in the order in which steps first count, and the rows that left.

    Where these are not `noted`, nobody will ask for them.
    """

    counts: dict[str, list[int]] = field(default_factory=dict)
    reasons: dict[str, dict[str, int]] = field(default_factory=dict)
    edits: dict[str, int] = field(default_factory=dict)
    noted: bool = True
    _dropped: list[pa.Table] = field(default_factory=list)

    def __reduce__(self) -> tuple[object, ...]:
        """As its fields: each block of a stream that comes from another process brings one."""
        return Ledger, (self.counts, self.reasons, self.edits, self.noted, self._dropped)

    @property
    def facts(self) -> dict[str, object]:
        """As a JSON value: documents and bytes after each step, documents by reason, documents edited."""
        return {"after": self.counts, "reasons": {step: dict(found) for step, found in self.reasons.items()},
                "edits": dict(self.edits)}  # fmt: skip

    def count(self, step: str, documents: Documents) -> None:
        """Count what a step left; READ is what came in."""
        row = self.counts.setdefault(step, [0, 0])
        row[0] += len(documents)
        row[1] += int(documents.offsets[-1] - documents.offsets[0])

    def settle(self, step: str, documents: Documents, judged: Verdict, bit: int = 0) -> Documents:
        """What a step leaves: edited documents are marked by its bit; those that go are noted as they were before."""
        left = documents if judged.documents is None else mark_edits(documents, judged.documents, bit)
        found = self.reasons.setdefault(step, {})
        gone = np.flatnonzero(~judged.kept)
        if len(gone):
            reasons = [judged.reasons[code] for code in judged.codes[gone]]
            add_counts(found, Counter(reasons))
            if self.noted:
                self._dropped.append(_dropped_rows(documents, gone, step, reasons, judged))
            left = left.take(np.flatnonzero(judged.kept))
        self.count(step, left)
        return left

    def pass_all(self, step: str, documents: Documents) -> Documents:
        """What a step leaves that judged all and dropped none."""
        self.reasons.setdefault(step, {})
        self.count(step, documents)
        return documents

    def take_dropped(self) -> list[pa.Table]:
        """The rows noted since the last call."""
        taken, self._dropped = self._dropped, []
        return taken


def add_counts(to: dict[str, int], counts: Mapping[str, int]) -> None:
    """What a Counter's `update` does, without one: each block of a stream has a ledger, and mostly nothing to count."""
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count


def mark_edits(before: Documents, after: Documents, bit: int) -> Documents:
    """`after` with a bit set on each document whose text a step has changed."""
    changed = pc.not_equal(before.batch.column("text"), after.batch.column("text")).to_numpy(zero_copy_only=False)
    if not changed.any():
        return before
    marks = after.batch.column("edits").to_numpy() | (changed.astype(np.int64) << bit)
    column = after.batch.schema.get_field_index("edits")
    return after.with_batch(after.batch.set_column(column, "edits", pa.array(marks)))


def dropped_schema() -> pa.Schema:
    """Documents that left: by which rule, for which reason, and what was measured or found."""
    names = {"doc": pa.int64(), "id": pa.string(), "source": pa.string(), "path": pa.string(), "row": pa.int64(),
             "rule": pa.string(), "reason": pa.string(), "value": pa.float64(), "detail": pa.string(),
             "kept": pa.int64(), "text": pa.large_string()}  # fmt: skip
    return pa.schema(list(names.items()))


def _dropped_rows(documents: Documents, rows: Ints, rule: str, reasons: list[str], judged: Verdict) -> pa.Table:
    """The dropped documents as rows of the account."""
    batch = documents.batch.take(pa.array(rows))
    values = None if judged.values is None else judged.values[rows]
    details = [judged.details.get(row) for row in rows.tolist()]
    columns = {
        **{name: batch.column(name) for name in ("doc", "id", "source", "path", "row")},
        "rule": pa.array([rule] * len(rows), pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "value": pa.nulls(len(rows), pa.float64()) if values is None else pa.array(values, from_pandas=True),
        "detail": pa.array(details, pa.string()),
        "kept": pa.nulls(len(rows), pa.int64()) if judged.kept_docs is None else pa.array(judged.kept_docs[rows]),
        "text": batch.column("text"),
    }
    return pa.table(columns, schema=dropped_schema())


@dataclass(frozen=True)
class Passed:
    """A batch after its steps: the rows of documents that stay, and those of documents that left, by step."""

    kept: pa.RecordBatch
    dropped: list[pa.Table]


def start_documents(batch: pa.RecordBatch, first: int) -> Documents:
    """A batch as it was read, numbered from `first`, with no step's mark on it yet."""
    return Documents(batch, number=functools.partial(_numbered, first))


def _numbered(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers, marks = np.arange(first, first + len(batch)), np.zeros(len(batch), np.int64)
    return batch.add_column(0, "doc", pa.array(numbers)).append_column("edits", pa.array(marks))


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
