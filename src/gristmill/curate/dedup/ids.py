"""Documents that have the same id."""

from __future__ import annotations

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
