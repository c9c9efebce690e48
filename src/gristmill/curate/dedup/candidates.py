"""Candidate pairs: documents that share a band key. Wide work only, band by band (small inputs: several at once).

A bucket of up to `max_bucket` documents gives all its pairs. In a larger one each document is paired with the first
10 by the keep rule, and with its 10 neighbours on either side in the order of the next band's key, where documents
that are alike beyond this band sit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.progress import Progress
from gristmill.curate.dedup.near import Near
from gristmill.curate.dedup.queries import alive, with_dropped
from gristmill.engine.base import Engine

LEADERS, NEIGHBOURS = 10, 10
# One query sees about so many (document, band key), some 1 GB, but at least one band.
ROWS_A_PASS = 16 << 20
_PAIR = "earlier_key, earlier, later_key, later"
_PAIRED = "a.keep_key AS earlier_key, a.doc AS earlier, b.keep_key AS later_key, b.doc AS later"


@dataclass(frozen=True)
class Bands:
    """The search for candidates over files of signatures, without the documents of `dropped` files."""

    engine: Engine
    signatures: Sequence[Path]
    dropped: Sequence[Path]
    options: Near
    work: Path

    def candidates(self, progress: Progress) -> Path:
        """All distinct pairs (earlier_key, earlier, later_key, later), in the order in which they will be resolved."""
        out = self.work / "candidates.parquet"
        if out.exists():
            return out
        progress.start("near duplicates: bands", self.options.shape[0], "bands")
        pairs = []
        for bands in self._passes():
            pairs.append(self._pairs(bands))
            progress.advance(len(bands))
        sql = f"SELECT DISTINCT {_PAIR} FROM pairs ORDER BY later_key, later, earlier_key, earlier"
        self.engine.query(sql, {"pairs": pairs}, out)
        for path in pairs:
            path.unlink()
        return out

    def alarms(self) -> list[str]:
        """A sentence on the buckets that were too large to compare all pairs, if there are any."""
        import pyarrow.parquet as pq

        files = [self._file("crowded", bands) for bands in self._passes()]
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        if not rows:
            return []
        largest = max(rows, key=lambda row: (row["size"], -row["doc"]))
        unit, row = largest["doc"] >> 32, largest["doc"] & 0xFFFFFFFF
        return [
            f"{sum(row['buckets'] for row in rows):,} buckets of near-duplicate candidates hold more than "
            f"{self.options.max_bucket} documents, the largest {largest['size']:,} (the first is row {row:,} of "
            f"unit {unit:,}): each document there was compared with {LEADERS + 2 * NEIGHBOURS} others only."
        ]

    def _passes(self) -> list[range]:
        """The bands by the query that takes them: one at a time, or several where documents are few."""
        import pyarrow.parquet as pq

        bands = range(self.options.shape[0])
        documents = sum(pq.read_metadata(path).num_rows for path in self.signatures)
        size = max(1, ROWS_A_PASS // max(1, documents))
        return [bands[i : i + size] for i in range(0, len(bands), size)]

    def _file(self, what: str, bands: range) -> Path:
        return self.work / f"{what}-{bands.start:03d}-{bands.stop:03d}.parquet"

    def _pairs(self, bands: range) -> Path:
        out = self._file("pairs", bands)
        if not out.exists():
            members = {"members": [self._members(bands)]}
            self.engine.query(_crowded_sql(self.options.max_bucket), members, self._file("crowded", bands))
            self.engine.query(_pairs_sql(self.options.max_bucket), members, out)
            self._file("members", bands).unlink()
        return out

    def _members(self, bands: range) -> Path:
        """The documents that do not have a bucket to themselves. A key tells its band: each band hashes otherwise."""
        out = self._file("members", bands)
        keys = self.options.key_columns
        columns = ", ".join(
            sorted({"doc", "keep_key", *(keys[(band + i) % len(keys)] for band in bands for i in (0, 1))})
        )
        sql = f"""
            WITH alive AS {alive("signatures", columns, self.dropped)},
            seats AS ({" UNION ALL ".join(_seats_sql(keys[band], keys[(band + 1) % len(keys)]) for band in bands)}),
            shared AS (
                SELECT bucket, COUNT(*) AS size FROM seats GROUP BY bucket HAVING COUNT(*) > 1 AND MAX(doc) >= 0
            )
            SELECT seats.bucket, shared.size, seats.following, seats.keep_key, seats.doc
            FROM seats JOIN shared ON seats.bucket = shared.bucket
        """
        if not out.exists():
            self.engine.query(sql, with_dropped({"signatures": self.signatures}, self.dropped), out)
        return out


def _seats_sql(key: str, following: str) -> str:
    return f"SELECT doc, keep_key, {key} AS bucket, {following} AS following FROM alive"


def _crowded_sql(max_bucket: int) -> str:
    """The largest bucket over the limit, by its first document, and how many such buckets there are: a row or none."""
    return f"""
        WITH crowded AS (
            SELECT size, MIN(doc) AS doc FROM members WHERE size > {max_bucket} AND doc >= 0 GROUP BY bucket, size
        )
        SELECT size, MIN(doc) AS doc, (SELECT COUNT(*) FROM crowded) AS buckets
        FROM crowded WHERE size = (SELECT MAX(size) FROM crowded) GROUP BY size
    """


def _pairs_sql(max_bucket: int) -> str:
    steps = " UNION ALL ".join(f"SELECT {step} AS step" for step in range(-NEIGHBOURS, NEIGHBOURS + 1) if step)
    return f"""
        WITH seated AS (
            SELECT bucket, size, keep_key, doc,
                ROW_NUMBER() OVER (PARTITION BY bucket ORDER BY keep_key, doc) AS place,
                ROW_NUMBER() OVER (PARTITION BY bucket ORDER BY following, doc) AS seat
            FROM members
        ),
        small AS (SELECT * FROM seated WHERE size <= {max_bucket}),
        large AS (SELECT * FROM seated WHERE size > {max_bucket}),
        leaders AS (SELECT * FROM large WHERE place <= {LEADERS}),
        steps AS ({steps}),
        beside AS (SELECT large.*, large.seat + steps.step AS other FROM large CROSS JOIN steps),
        found AS (
            SELECT {_PAIRED} FROM small a JOIN small b ON a.bucket = b.bucket WHERE a.place < b.place
            UNION ALL
            SELECT {_PAIRED} FROM leaders a JOIN large b ON a.bucket = b.bucket WHERE a.place < b.place
            UNION ALL
            SELECT {_PAIRED} FROM beside a JOIN large b ON a.bucket = b.bucket AND a.other = b.seat
            WHERE a.place < b.place
        )
        SELECT {_PAIR} FROM found WHERE later >= 0
    """
