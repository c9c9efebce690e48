"""Two passes around the query for repeated lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.progress import Quiet
from gristmill.curate.dedup import lines as rule
from gristmill.curate.dedup.lines import Lines
from gristmill.curate.ledger import start_documents
from gristmill.stages.lines import LinesJob, TrimJob, find_repeated
from gristmill.stages.relation import Drops, Relation, first_doc
from gristmill.stages.work import Workshop, relation_of

SAME, OTHER = "This line stands in several documents.", "And this one only here, in the document of number"


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Two units of two documents that share a line."""
    paths = []
    for unit in range(2):
        given = [f"{OTHER} {unit}{row}.\n{SAME}\n" for row in range(2)]
        columns = {"id": [f"{unit}-{row}" for row in range(2)], "source": ["web"] * 2, "path": ["a"] * 2, "row": [0, 1],
                   "text": pa.array(given, pa.large_string())}  # fmt: skip
        batch = start_documents(pa.record_batch(columns), first_doc(unit)).batch
        paths.append(tmp_path / f"{unit}.parquet")
        pq.write_table(pa.Table.from_batches([batch]), paths[-1])
    return paths


@pytest.mark.parametrize("lines_a_pass", [rule.LINES_A_PASS, 3])
def test_a_line_stays_where_it_comes_first(
    texts: list[Path], engine: Any, tmp_path: Path, lines_a_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "LINES_A_PASS", lines_a_pass)
    work, lines = Workshop(engine, tmp_path / "work", Quiet()), Lines(min_chars=10)
    jobs = [LinesJob(texts=path, upstream=path.name, lines=lines, number=i, folder=work.folder / "lines")
            for i, path in enumerate(texts)]  # fmt: skip
    hashed = relation_of(jobs, work.complete(jobs, "hashing"))
    assert hashed.rows == 8
    pq.write_table(pa.table({"doc": [0], "kept": [first_doc(1)]}), tmp_path / "gone.parquet")
    gone = Relation((tmp_path / "gone.parquet",), "gone")
    repeated = tuple(find_repeated(work, hashed, [gone]))
    assert sum(found.rows for found in repeated) == 2 and len(repeated) == (1 if lines_a_pass > 3 else 3)
    trims = [TrimJob(texts=path, upstream=path.name, drops=(Drops("exact", "duplicate", gone),), repeated=repeated,
                     lines=lines, bit=1, fields=(), number=i, folder=work.folder / "trim")
             for i, path in enumerate(texts)]  # fmt: skip
    first, second = work.complete(trims, "removing")
    left = [text for job in trims for text in pq.read_table(job.outputs[0])["text"].to_pylist()]
    assert [SAME in text for text in left] == [True, False, False] and all(OTHER in text for text in left)
    assert first.facts["reasons"] == {"exact": {"duplicate": 1}, "lines": {}} and second.facts["after"]["lines"][0] == 2
    assert pq.read_table(trims[0].outputs[1])["id"].to_pylist() == ["0-0"]
