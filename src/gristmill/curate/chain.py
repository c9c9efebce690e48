"""The first pass: a unit of raw files to cleaned documents, and the documents that rules dropped, with reasons."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gristmill.core.errors import GristmillError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import content
from gristmill.curate.base import Rule, Verdict
from gristmill.curate.clean import CleanOptions, clean
from gristmill.curate.dedup.exact import content_hashes, text_digests
from gristmill.curate.documents import Documents, Ints
from gristmill.curate.rules import content as rule_content
from gristmill.sources.base import Format, Mishap, Mishaps
from gristmill.sources.units import Unit, read_unit
from gristmill.stages.tables import document_schema, dropped_schema, table_writer
from gristmill.stages.work import Facts, UnitJob, first_doc
from gristmill.store.format import hash_ids

if TYPE_CHECKING:
    import pyarrow as pa

EMPTY, UNREADABLE = "empty", "unreadable"
_NO_DOC = -1
CLEAN = "clean"


@dataclass(frozen=True)
class Curation:
    """What every document goes through by itself, in this order: cleaning, then each rule."""

    clean: CleanOptions | None
    rules: tuple[Rule, ...]
    on_error: str

    @property
    def content(self) -> Any:
        """For fingerprints and the manifest."""
        return {
            "clean": content(self.clean) if self.clean else None,
            "rules": [rule_content(rule) for rule in self.rules],
            "on_error": self.on_error,
        }

    @property
    def steps(self) -> list[str]:
        """The names behind the bits of `edits`."""
        return [CLEAN, *(rule.name for rule in self.rules)]


@dataclass(frozen=True, kw_only=True)
class CurateJob(UnitJob):
    """Reads a unit, cleans and judges it, and writes WORK/curate/NUMBER.parquet and NUMBER.dropped.parquet."""

    suffixes: ClassVar[Sequence[str]] = (".parquet", ".dropped.parquet")
    unit: Unit
    inputs: str
    format: Format
    fields: tuple[str, ...]
    keep_key: int
    curation: Curation

    @property
    def depends(self) -> Any:
        return [
            "curate-2",  # a new number where the same inputs are read otherwise than before
            self.inputs,
            content(self.format),
            self.fields,
            self.keep_key,
            self.number,
            self.curation.content,
        ]

    def __call__(self) -> Facts:
        ledger = Ledger()
        with (
            table_writer(self.outputs[0], document_schema(self.fields)) as kept,
            table_writer(self.outputs[1], dropped_schema()) as dropped,
        ):
            mishaps = Mishaps(self.curation.on_error, lambda found: dropped.write_table(unreadable_rows(found)))
            for documents in self._documents(mishaps):
                ledger.read(documents)
                documents = curate(documents, self.curation, ledger)
                kept.write_batch(finished(documents, kept.schema, self.keep_key))
                for table in ledger.take_dropped():
                    dropped.write_table(table)
            mishaps.flush()
        return {**ledger.facts, "unreadable": mishaps.skipped, "damaged": mishaps.by_file, "empty": mishaps.empty,
                "ignored": mishaps.ignored.total()}  # fmt: skip

    def _documents(self, mishaps: Mishaps) -> Iterator[Documents]:
        """The batches of the unit, numbered, with no step's mark on them yet."""
        at = first_doc(self.number)
        for batch in read_unit(self.unit, self.format, mishaps):
            yield start_documents(batch, at)
            at += len(batch)


def inputs_fingerprint(unit: Unit) -> str:
    """The files of a unit as they are now: names, sizes, times of change, and the stretches that are read."""
    parts = []
    for part in unit.parts:
        found = os.stat(part.file.path)
        parts.append([part.file.name, found.st_size, found.st_mtime_ns, part.start, part.stop])
    return fingerprint([unit.source, parts])


def warm(curation: Curation) -> None:
    """Load what cleaning and the rules need (kernels, models, spaCy: seconds), by a document of no consequence.

    A user's own function is not called: it may count what it sees.
    """
    import pyarrow as pa

    texts = pa.array(["A text of a few words."], pa.large_string())
    places = {name: pa.array(["-"]) for name in ("id", "source", "path")}
    documents = start_documents(pa.record_batch({**places, "row": pa.array([0]), "text": texts}), 0)
    if curation.clean:
        clean(documents, curation.clean)
    for rule in (rule for rule in curation.rules if rule.name != "function"):
        with contextlib.suppress(GristmillError):  # the real documents will raise it where it can be seen
            rule.judge(documents)


def start_documents(batch: pa.RecordBatch, first: int) -> Documents:
    """A batch as it was read, numbered from `first`, with no step's mark on it yet."""
    import pyarrow as pa

    numbers, marks = np.arange(first, first + len(batch)), np.zeros(len(batch), np.int64)
    return Documents(batch.add_column(0, "doc", pa.array(numbers)).append_column("edits", pa.array(marks)))


def finished(documents: Documents, schema: pa.Schema, keep_key: int | None = None) -> pa.RecordBatch:
    """The rows of documents between stages: with size and hash of the text as it is now, and a keep key if given."""
    import pyarrow as pa

    high, low = text_digests(documents)
    ids = hash_ids(documents.batch.column("id").to_pylist()).view(np.int64)
    made: dict[str, Any] = {"id_hash": ids, "bytes": np.diff(documents.offsets), "hash_hi": high, "hash_lo": low,
                            "content_hash": content_hashes(documents)}  # fmt: skip
    if keep_key is not None:
        made["keep_key"] = np.full(len(documents), keep_key)
    have = {**{name: documents.batch.column(name) for name in documents.batch.schema.names}, **made}
    columns = [have.get(field.name, pa.nulls(len(documents), field.type)) for field in schema]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


def curate(documents: Documents, curation: Curation, ledger: Ledger) -> Documents:
    """Documents cleaned, and those that no rule dropped; what happened to the others is in the ledger."""
    if curation.clean:
        cleaned = clean(documents, curation.clean)
        ledger.edits.update(cleaned.counts)
        documents = mark_edits(documents, cleaned.documents, 0)
    ledger.after(CLEAN, documents)
    for bit, rule in enumerate(curation.rules, 1):
        if len(documents):
            judged = rule.judge(documents)
            edited = judged.documents
            rows = ledger.drop(rule.name, documents, judged)
            if edited is not None:
                documents = mark_edits(documents, edited, bit)
            documents = documents if rows is None else documents.take(rows)
            ledger.after(rule.name, documents)
    return drop_empty(documents, ledger)


def drop_empty(documents: Documents, ledger: Ledger) -> Documents:
    """The documents that still have a text."""
    sizes = np.diff(documents.offsets)
    judged = Verdict((EMPTY,), np.where(sizes > 0, -1, 0).astype(np.int16))
    rows = ledger.drop(EMPTY, documents, judged)
    ledger.after(EMPTY, documents if rows is None else (documents := documents.take(rows)))
    return documents


def mark_edits(before: Documents, after: Documents, bit: int) -> Documents:
    """`after` with a bit set on each document whose text a step has changed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    changed = pc.not_equal(before.batch.column("text"), after.batch.column("text")).to_numpy(zero_copy_only=False)
    if not changed.any():
        return before
    marks = after.batch.column("edits").to_numpy() | (changed.astype(np.int64) << bit)
    column = after.batch.schema.get_field_index("edits")
    return after.with_batch(after.batch.set_column(column, "edits", pa.array(marks)))


@dataclass
class Ledger:
    """Counts of a unit (one source) by step, in the order in which steps first count, and the rows that left."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    edits: Counter[str] = field(default_factory=Counter)
    _dropped: list[pa.Table] = field(default_factory=list)

    @property
    def facts(self) -> Facts:
        """For the marker: documents and bytes after each step, documents by reason, documents edited."""
        return {"after": self.counts, "reasons": {rule: dict(found) for rule, found in self.reasons.items()},
                "edits": dict(self.edits)}  # fmt: skip

    def read(self, documents: Documents) -> None:
        """Count what came in."""
        self.after("read", documents)

    def after(self, step: str, documents: Documents) -> None:
        """Count what a step left."""
        row = self.counts.setdefault(step, [0, 0])
        row[0] += len(documents)
        row[1] += int(documents.offsets[-1] - documents.offsets[0])

    def drop(self, rule: str, documents: Documents, judged: Verdict) -> Ints | None:
        """Note what a rule drops; the rows that stay, or None for all."""
        gone = np.flatnonzero(judged.codes >= 0)
        found = self.reasons.setdefault(rule, Counter())
        if not len(gone):
            return None
        reasons = [judged.reasons[code] for code in judged.codes[gone]]
        found.update(reasons)
        self._dropped.append(dropped_rows(documents, gone, rule, reasons, judged))
        return np.flatnonzero(judged.codes < 0)

    def take_dropped(self) -> list[pa.Table]:
        """The rows noted since the last call."""
        taken, self._dropped = self._dropped, []
        return taken


def unreadable_rows(mishaps: Sequence[Mishap]) -> pa.Table:
    """Documents and files that could not be read, as rows of the account: they have no number and no text."""
    import pyarrow as pa

    found = {
        "doc": [_NO_DOC] * len(mishaps),
        "id": [mishap.id for mishap in mishaps],
        "source": [mishap.file.source for mishap in mishaps],
        "path": [mishap.file.name for mishap in mishaps],
        "row": [mishap.row for mishap in mishaps],
        "rule": [UNREADABLE] * len(mishaps),
        "reason": [UNREADABLE] * len(mishaps),
        "detail": [mishap.what for mishap in mishaps],
    }
    schema = dropped_schema()
    return pa.table({name: found.get(name, [None] * len(mishaps)) for name in schema.names}, schema=schema)


def dropped_rows(documents: Documents, rows: Ints, rule: str, reasons: Sequence[str], judged: Verdict) -> pa.Table:
    """The dropped documents as rows of the account."""
    import pyarrow as pa

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
