"""Candidate pairs: documents that share a band key. Wide work only, band by band (small inputs: several at once).

A bucket of up to `max_bucket` documents gives all its pairs. In a larger one each document is paired with the first
10 by the keep rule, and with its 10 neighbours on either side in the order of the next band's key, where documents
that are alike beyond this band sit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gristmill.curate.dedup.drops import alive
from gristmill.curate.dedup.near import Near

LEADERS, NEIGHBOURS = 10, 10
# One query sees about so many (document, band key), some 1 GB, but at least one band.
ROWS_A_PASS = 16 << 20
_PAIR = "earlier_key, earlier, later_key, later"
_NAMED = ("keep_key", "doc")
_BEFORE = "(a.keep_key < b.keep_key OR (a.keep_key = b.keep_key AND a.doc < b.doc))"
_PAIRED = "a.keep_key AS earlier_key, a.doc AS earlier, b.keep_key AS later_key, b.doc AS later"

# Pairs of a document come together before they are told apart: Spark would look for equal ones among those of a bucket
# first, where there are none, and sort what does not fit into memory. To DuckDB this is a comment.
_TOGETHER = "/*+ REPARTITION(later) */"

# Of all `pairs` each once, in the order in which they will be resolved; and the documents of these `candidates`.
DISTINCT_PAIRS = f"""
    SELECT DISTINCT {_PAIR} FROM (SELECT {_TOGETHER} {_PAIR} FROM pairs) AS together
    ORDER BY later_key, later, earlier_key, earlier
"""
WANTED = """
    SELECT doc FROM (SELECT earlier AS doc FROM candidates UNION SELECT later AS doc FROM candidates) AS both_sides
    WHERE doc >= 0 ORDER BY doc
"""


def passes(options: Near, documents: int) -> list[range]:
    """The bands by the query that takes them: one at a time, or several where documents are few."""
    bands = range(options.shape[0])
    size = max(1, ROWS_A_PASS // max(1, documents))
    return [bands[i : i + size] for i in range(0, len(bands), size)]


def members(options: Near, bands: range, dropped: bool) -> str:
    """SQL for the documents of `signatures` that do not have a bucket to themselves.

    A key tells its band: each band hashes otherwise. Documents are read once for all bands: Spark reads them anew, and
    compiles that anew, for each part of a union.
    """
    keys = options.key_columns
    bucket, following = ({band: keys[(band + i) % len(keys)] for band in bands} for i in (0, 1))
    columns = ", ".join(sorted({"doc", "keep_key", *bucket.values(), *following.values()}))
    return f"""
        WITH alive AS {alive("signatures", columns, dropped)},
        seats AS (
            SELECT doc, keep_key, {_chosen("band", bucket)} AS bucket, {_chosen("band", following)} AS following
            FROM alive CROSS JOIN {_numbers("band", bands)}
        ),
        shared AS (
            SELECT bucket, COUNT(*) AS size FROM seats GROUP BY bucket HAVING COUNT(*) > 1 AND MAX(doc) >= 0
        )
        SELECT seats.bucket, shared.size, seats.following, seats.keep_key, seats.doc
        FROM seats JOIN shared ON seats.bucket = shared.bucket
    """


def crowded(max_bucket: int) -> str:
    """SQL for the largest bucket of `members` over the limit, by its first document, and their count: a row or none."""
    return f"""
        WITH crowded AS (
            SELECT size, MIN(doc) AS doc FROM members WHERE size > {max_bucket} AND doc >= 0 GROUP BY bucket, size
        ),
        sizes AS (SELECT size, MIN(doc) AS doc, COUNT(*) AS buckets FROM crowded GROUP BY size),
        totals AS (SELECT size, doc, SUM(buckets) OVER () AS buckets, MAX(size) OVER () AS largest FROM sizes)
        SELECT size, doc, CAST(buckets AS BIGINT) AS buckets FROM totals WHERE size = largest
    """


def alarms(options: Near, crowds: Sequence[Mapping[str, int]]) -> list[str]:
    """A sentence on the buckets that were too large to compare all pairs, if `crowded` gave any."""
    if not crowds:
        return []
    largest = max(crowds, key=lambda crowd: (crowd["size"], -crowd["doc"]))
    unit, row = largest["doc"] >> 32, largest["doc"] & 0xFFFFFFFF
    return [
        f"{sum(crowd['buckets'] for crowd in crowds):,} buckets of near-duplicate candidates hold more than "
        f"{options.max_bucket} documents, the largest {largest['size']:,} (the first is row {row:,} of "
        f"unit {unit:,}): each document there was compared with {LEADERS + 2 * NEIGHBOURS} others only."
    ]


def pairs(max_bucket: int) -> str:
    """SQL for the pairs of `members` that share a bucket, by the keep rule's order in each.

    Those of a crowd are made where its members are seated, a neighbour a column: a join of members by their seats moves
    each of them 20 times. Several bands give nearly the same pairs, which are told apart once, with those of all
    queries: to do so here as well takes DuckDB twice the time, and more memory than a run has.
    """
    steps = range(1, NEIGHBOURS + 1)
    beside = ", ".join(f"LEAD({name}, {step}) OVER seats AS {name}_{step}" for step in steps for name in _NAMED)
    chosen = ", ".join(
        f"{_chosen('step', {step: f'{name}_{step}' for step in steps})} AS other_{name}" for name in _NAMED
    )
    return f"""
        WITH small AS (SELECT bucket, keep_key, doc FROM members WHERE size <= {max_bucket}),
        large AS (SELECT bucket, following, keep_key, doc FROM members WHERE size > {max_bucket}),
        placed AS (
            SELECT bucket, keep_key, doc, ROW_NUMBER() OVER (PARTITION BY bucket ORDER BY keep_key, doc) AS place
            FROM large
        ),
        leaders AS (SELECT bucket, keep_key, doc FROM placed WHERE place <= {LEADERS}),
        seated AS (
            SELECT keep_key, doc, {beside} FROM large WINDOW seats AS (PARTITION BY bucket ORDER BY following, doc)
        ),
        neighbours AS (SELECT keep_key, doc, {chosen} FROM seated CROSS JOIN {_numbers("step", steps)}),
        ordered AS (
            SELECT *, keep_key < other_keep_key OR (keep_key = other_keep_key AND doc < other_doc) AS first
            FROM neighbours WHERE other_doc IS NOT NULL
        ),
        found AS (
            SELECT {_PAIRED} FROM small a JOIN small b ON a.bucket = b.bucket WHERE {_BEFORE}
            UNION ALL
            SELECT {_PAIRED} FROM leaders a JOIN large b ON a.bucket = b.bucket WHERE {_BEFORE}
            UNION ALL
            SELECT CASE WHEN first THEN keep_key ELSE other_keep_key END, CASE WHEN first THEN doc ELSE other_doc END,
                CASE WHEN first THEN other_keep_key ELSE keep_key END, CASE WHEN first THEN other_doc ELSE doc END
            FROM ordered
        )
        SELECT {_PAIR} FROM found WHERE later >= 0
    """


def _numbers(name: str, values: range) -> str:
    """A table of numbers, in a column of this name."""
    return f"(VALUES {', '.join(f'({value})' for value in values)}) AS numbers({name})"


def _chosen(number: str, columns: Mapping[int, str]) -> str:
    """The column that a number stands for."""
    return f"CASE {number} {' '.join(f'WHEN {value} THEN {column}' for value, column in columns.items())} END"
