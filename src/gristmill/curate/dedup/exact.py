"""Documents whose texts are equal byte for byte, and documents that have the same id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gristmill.core.options import check_fields
from gristmill.curate.dedup.drops import alive


@dataclass(frozen=True)
class Exact:
    """Drop documents whose text another one has; `keep`: the first in the order of the input, or by `priority`."""

    name: ClassVar[str] = "exact"
    keep: Literal["first", "priority"] = "first"

    def __post_init__(self) -> None:
        check_fields(self, "dedup: exact")


def equal_documents(dropped: bool) -> str:
    """SQL for the rows (doc, kept) of `documents` (doc, keep_key, hash_hi, hash_lo) that go, in the order of doc."""
    return f"""
        WITH alive AS {alive("documents", "doc, keep_key, hash_hi, hash_lo", dropped)},
        shared AS (SELECT hash_hi, hash_lo FROM alive GROUP BY hash_hi, hash_lo HAVING COUNT(*) > 1),
        ranked AS (
            SELECT alive.doc, FIRST_VALUE(alive.doc) OVER (
                PARTITION BY alive.hash_hi, alive.hash_lo ORDER BY alive.keep_key, alive.doc
            ) AS kept
            FROM alive JOIN shared ON alive.hash_hi = shared.hash_hi AND alive.hash_lo = shared.hash_lo
        )
        SELECT doc, kept FROM ranked WHERE doc <> kept ORDER BY doc
    """


# SQL for the `documents` whose id an earlier one has, in the order of doc, with the places of both.
REPEATED_IDS = """
    SELECT later.doc, earliest.doc AS kept, later.id, earliest.path AS first_path, earliest.row AS first_row,
        later.path, later.row
    FROM documents AS later
    JOIN (
        SELECT id_hash, id, MIN(doc) AS doc FROM documents
        WHERE id_hash IN (SELECT id_hash FROM documents GROUP BY id_hash HAVING COUNT(*) > 1)
        GROUP BY id_hash, id HAVING COUNT(*) > 1
    ) AS shared ON later.id_hash = shared.id_hash AND later.id = shared.id
    JOIN documents AS earliest ON earliest.doc = shared.doc
    WHERE later.doc <> earliest.doc ORDER BY later.doc
"""
