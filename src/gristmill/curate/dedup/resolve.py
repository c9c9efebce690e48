"""Who goes: the greedy maximal independent set over edges that lead from an earlier document to a later one.

A document goes if an earlier neighbour stays, and stays if all of them go. Edges lead one way in the order of the keep
rule, so they have no cycle and there is one answer, by whatever way it is found: round by round over all edges, or
from document to document in one task.
"""

from __future__ import annotations

import numpy as np

from gristmill.core.arrays import Ints

# A round over the edges (earlier, later) that are left: those with a neighbour that has no earlier one go,
GONE = """
    SELECT DISTINCT edges.later AS doc FROM edges
    WHERE NOT EXISTS (SELECT 1 FROM edges AS above WHERE above.later = edges.earlier)
"""
# and all edges of those that are gone with them.
LEFT = """
    SELECT edges.earlier, edges.later FROM edges
    WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.doc = edges.later)
    AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.doc = edges.earlier)
"""

# The clusters of `edges`, by labels (doc, label), of which the label is the lesser number. A round lets each document
# look at its neighbours: the greater ones are led to the least that it knows ("large star"), then the lesser ones, and
# itself ("small star"; Kiveris and others, 2014). Paths become half as long or so: a chain of n takes log2(n) rounds.
NEIGHBOURS = "SELECT DISTINCT GREATEST(earlier, later) AS doc, LEAST(earlier, later) AS label FROM edges"
STARS = """
    WITH beside AS (SELECT doc AS here, label AS there FROM labels UNION ALL SELECT label, doc FROM labels),
    lowest AS (SELECT here, LEAST(here, MIN(there)) AS label FROM beside GROUP BY here),
    led AS (
        SELECT DISTINCT beside.there AS doc, lowest.label FROM beside JOIN lowest ON beside.here = lowest.here
        WHERE beside.there > beside.here
    ),
    least AS (SELECT doc, MIN(label) AS label FROM led GROUP BY doc)
    SELECT doc, label FROM least
    UNION
    SELECT led.label AS doc, least.label FROM led JOIN least ON led.doc = least.doc WHERE led.label <> least.label
"""
# Documents that do not yet lead to the least one of their cluster, and nowhere else; nobody when all is found.
RESTLESS = """
    SELECT doc FROM labels GROUP BY doc HAVING COUNT(*) > 1
    UNION
    SELECT a.doc FROM labels a JOIN labels b ON a.label = b.doc
"""
# Of all documents that go, how many go in favour of the one that has the most.
LARGEST = "SELECT MAX(documents) AS documents FROM (SELECT COUNT(*) AS documents FROM near GROUP BY kept) AS clusters"


def dealt(bins: int) -> str:
    """SQL for `edges` by the bin that their cluster falls into: its number is the unit of `doc`."""
    return f"""
        SELECT ABS(COALESCE(labels.label, edges.later)) % {bins} * 4294967296 AS doc, edges.earlier, edges.later
        FROM edges LEFT JOIN labels ON labels.doc = edges.later ORDER BY 1, edges.later, edges.earlier
    """


def evidence(verified: bool, index: bool) -> str:
    """SQL for who goes in favour of whom, in the order of doc: the most similar one that stays, the first of equals.

    Without verification the first one is named. `edges` are all there ever were, `gone` all documents that go; with an
    index, `ids` are those of its documents.
    """
    best, similarity = ("edges.similarity DESC, ", "edges.similarity") if verified else ("", "CAST(NULL AS DOUBLE)")
    kept_id, joined = ("ids.id", "LEFT JOIN ids ON ranked.kept = ids.doc") if index else ("CAST(NULL AS STRING)", "")
    return f"""
        WITH ranked AS (
            SELECT edges.later AS doc, edges.earlier AS kept, {similarity} AS similarity,
                ROW_NUMBER() OVER (
                    PARTITION BY edges.later ORDER BY {best}edges.earlier_key, edges.earlier
                ) AS place
            FROM edges WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.doc = edges.earlier)
        )
        SELECT ranked.doc, ranked.kept, {kept_id} AS kept_id, ranked.similarity
        FROM ranked {joined} WHERE ranked.place = 1 ORDER BY ranked.doc
    """


def settle(earlier: Ints, later: Ints) -> Ints:
    """The documents that go, sorted, by edges in any order; time and memory (80 bytes an edge) grow with the edges."""
    from gristmill.curate.dedup import pair_kernels

    docs, places = np.unique(np.concatenate([earlier, later]), return_inverse=True)
    above, below = places.reshape(2, -1)
    ends = np.append(0, np.cumsum(np.bincount(above, minlength=len(docs))))
    below, waiting = below[np.argsort(above, kind="stable")], np.bincount(below, minlength=len(docs))
    gone = np.zeros(len(docs), bool)
    pair_kernels.settle(ends, below, waiting, np.empty(len(docs), np.int64), gone)
    return docs[gone]
