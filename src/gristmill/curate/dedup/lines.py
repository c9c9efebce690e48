"""Lines or paragraphs that another document, or the same one, has already: the first copy in the corpus stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.options import check_fields
from gristmill.core.values import Within
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.dedup.drops import UnitDrops, alive, apply_drops
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger, Passed, passed

# One query sees at most about so many lines, some 1 GB; the hashes' range is cut into as many passes as it takes.
LINES_A_PASS = 24 << 20
_COLUMNS = ("doc", "line", "hash", "rest")
EMPTIED = "repeated_lines"


@dataclass(frozen=True)
class Lines:
    """Remove repeated lines, or paragraphs (runs of lines that are not blank).

    Only those of at least `min_chars` characters, blanks at the ends not counted: what is shorter is more often
    structure (a brace, a heading, a list's mark, a short answer) than boilerplate.
    """

    name: ClassVar[str] = "lines"
    unit: Literal["line", "paragraph"] = "line"
    min_chars: Annotated[int, Within(1, 2**31)] = 20

    def __post_init__(self) -> None:
        check_fields(self, "dedup: lines")


def line_hashes(batch: pa.RecordBatch, options: Lines) -> pa.RecordBatch:
    """The rows (doc, line, hash, rest) of lines that are long enough; `line` counts all of the document from 0.

    `hash` and `rest` are the halves of a digest that nobody can forge: equal ones alone make a line a repetition.
    """
    from gristmill.curate.dedup import line_kernels

    documents = Documents(batch)
    # A line that counts has min_chars bytes and a newline.
    room = int(documents.offsets[-1] - documents.offsets[0]) // (options.min_chars + 1) + len(documents)
    texts, lines, hashes, rests = (np.empty(room, np.int64) for _ in range(4))
    paragraphs = options.unit == "paragraph"
    count = line_kernels.hash_spans(
        documents.data, documents.offsets, paragraphs, options.min_chars, texts, lines, hashes, rests
    )
    docs = np.asarray(batch.column("doc"))[texts[:count]]
    columns = [pa.array(column) for column in (docs, lines[:count], hashes[:count], rests[:count])]
    return pa.RecordBatch.from_arrays(columns, names=_COLUMNS)


def by_hash(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """What `line_hashes` gave for a unit as one table, sorted by hash: 32 bytes a line in memory."""
    rows = pa.Table.from_batches(batches, pa.schema([(name, pa.int64()) for name in _COLUMNS]))
    return rows.take(pa.array(np.argsort(rows["hash"].to_numpy())))


def passes(lines: int) -> int:
    """How many queries it takes, each on a range of the hashes."""
    return -(-lines // LINES_A_PASS) or 1


def repeated_lines(i: int, passes: int, dropped: bool) -> str:
    """SQL for the rows (doc, line), in this order, of `lines` in a pass's range of hashes that equal an earlier one."""
    columns = ", ".join(_COLUMNS)
    return f"""
        WITH alive AS (SELECT {columns} FROM {alive("lines", columns, dropped)} AS a WHERE {_hash_range(i, passes)}),
        shared AS (SELECT hash, rest FROM alive GROUP BY hash, rest HAVING COUNT(*) > 1),
        counted AS (
            SELECT alive.doc, alive.line,
                ROW_NUMBER() OVER (PARTITION BY alive.hash, alive.rest ORDER BY alive.doc, alive.line) AS copy
            FROM alive JOIN shared ON alive.hash = shared.hash AND alive.rest = shared.rest
        )
        SELECT doc, line FROM counted WHERE copy > 1 ORDER BY doc, line
    """


def _hash_range(i: int, passes: int) -> str:
    """The condition for range `i` of signed 64-bit numbers; the outer bounds are left away: SQL cannot spell one."""
    first, after = ((1 << 64) * k // passes - (1 << 63) for k in (i, i + 1))
    bounds = [f"hash >= {first}"] * (i > 0) + [f"hash < {after}"] * (i + 1 < passes)
    return " AND ".join(bounds) or "TRUE"


@dataclass(frozen=True)
class Removals:
    """Lines that go: documents in ascending order, and the number of a line in each, ascending too."""

    docs: Ints
    lines: Ints


def removals_of(tables: Sequence[pa.Table]) -> Removals:
    """What the passes found in the documents of a unit, together."""
    docs, lines = (np.concatenate([table[name].to_numpy() for table in tables]) for name in ("doc", "line"))
    order = np.lexsort((lines, docs))
    return Removals(docs[order], lines[order])


def trim(
    batch: pa.RecordBatch, drops: Sequence[UnitDrops], removals: Removals, options: Lines, bit: int, ledger: Ledger
) -> Passed:
    """A batch without the documents that wide rules dropped, and the others without their repeated lines."""
    documents = apply_drops(Documents(batch), drops, ledger)
    left = ledger.settle(Lines.name, documents, remove_lines(documents, removals, options), bit)
    return passed(left, ledger)


def remove_lines(documents: Documents, removals: Removals, options: Lines) -> Verdict:
    """The documents without these lines; one of which only blanks are left goes. `values`: lines removed from each."""
    from gristmill.curate.dedup import line_kernels

    docs = np.asarray(documents.batch.column("doc"))
    begins = np.searchsorted(removals.docs, docs)
    counts = np.searchsorted(removals.docs, docs, side="right") - begins
    ends = np.concatenate([[0], np.cumsum(counts)])
    lines = removals.lines[np.repeat(begins - ends[:-1], counts) + np.arange(ends[-1])]
    data = np.empty(int(documents.offsets[-1] - documents.offsets[0]), np.uint8)
    offsets, emptied = np.empty(len(documents) + 1, np.int64), np.zeros(len(documents), np.bool_)
    paragraphs = options.unit == "paragraph"
    size = line_kernels.remove_spans(documents.data, documents.offsets, paragraphs, ends, lines, data, offsets, emptied)
    codes = np.where(emptied, 0, KEEP).astype(np.int16)
    return Verdict((EMPTIED,), codes, counts.astype(np.float64), documents=documents.with_text(data[:size], offsets))
