"""Jobs, queries and their markers, by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.progress import Quiet
from gristmill.engine.inline import InlineEngine
from gristmill.places.door import place_at
from gristmill.stages.relation import Relation
from gristmill.stages.work import Facts, Query, UnitJob, Workshop, finished, forget, perform, relation_of

NUMBERS = "SELECT n FROM numbers WHERE n < 3 ORDER BY n"


class Counting(InlineEngine):
    """Notes the steps of the queries that it runs."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(1 << 28, scratch)
        self.asked: list[str] = []

    def query(self, sql: str, tables: Any, out: Path) -> list[Path]:
        self.asked.append(out.parent.name)
        return super().query(sql, tables, out)


@pytest.fixture
def work(tmp_path: Path) -> Workshop:
    return Workshop(Counting(tmp_path / "scratch"), tmp_path / "work", Quiet())


@pytest.fixture
def numbers(tmp_path: Path) -> Relation:
    pq.write_table(pa.table({"n": [3, 1, 2]}), tmp_path / "numbers.parquet")
    return Relation((tmp_path / "numbers.parquet",), "of 3, 1 and 2")


def asked(work: Workshop) -> list[str]:
    assert isinstance(work.engine, Counting)
    return work.engine.asked


def test_a_query_is_run_once_for_what_it_stands_on(work: Workshop, numbers: Relation) -> None:
    first = work.ask(Query("small", NUMBERS, {"numbers": [numbers]}))
    assert pq.read_table(list(first.files))["n"].to_pylist() == [1, 2] and first.rows == 2
    assert work.ask(Query("small", NUMBERS, {"numbers": [numbers]})) == first and asked(work) == ["small"]
    others = [
        Query("small", NUMBERS.replace("3", "2"), {"numbers": [numbers]}),
        Query("small", NUMBERS, {"numbers": [Relation(numbers.files, "of others")]}),
        Query("small", NUMBERS, {"numbers": [numbers]}),
    ]
    assert [work.ask(query).rows for query in others] == [1, 2, 2] and len(asked(work)) == 4


def test_a_query_asks_first_for_those_it_reads_and_for_none_when_it_is_answered(
    work: Workshop, numbers: Relation
) -> None:
    inner = Query("inner", NUMBERS, {"numbers": [numbers]})
    outer = Query("outer", "SELECT COUNT(*) AS n FROM counted", {"counted": [inner, numbers]})
    assert pq.read_table(list(work.ask(outer).files))["n"].to_pylist() == [5]
    work.forget(inner)
    assert work.answer(inner) is None and not list(work.folder.glob("inner/*"))
    assert work.ask(outer).rows == 1 and asked(work) == ["inner", "outer"]


def test_a_lost_file_of_a_query_is_made_again(work: Workshop, numbers: Relation) -> None:
    query = Query("small", NUMBERS, {"numbers": [numbers]})
    for file in work.ask(query).files:
        file.unlink()
    assert work.answer(query) is None and work.ask(query).rows == 2


@dataclass(frozen=True, kw_only=True)
class Writing(UnitJob):
    """Writes its number."""

    suffixes = (".txt",)
    depends: Any = None

    def __call__(self) -> Facts:
        place_at(self.outputs[0]).write(str(self.number))
        return {"rows": self.number}


def test_jobs_are_done_once_and_their_tables_count_rows(work: Workshop) -> None:
    jobs = [Writing(number=number, folder=work.folder / "numbers") for number in (1, 2)]
    table = relation_of(jobs, work.complete(jobs, "writing"))
    assert table.rows == 3 and [file.read_text() for file in table.files] == ["1", "2"]
    jobs[0].outputs[0].write_text("untouched")
    assert relation_of(jobs, work.complete(jobs, "writing")) == table and jobs[0].outputs[0].read_text() == "untouched"
    forget(jobs)
    assert [finished(job) for job in jobs] == [None, None] and not list((work.folder / "numbers").iterdir())


def test_a_marker_that_is_damaged_vouches_for_nothing(work: Workshop) -> None:
    job = Writing(number=1, folder=work.folder / "numbers")
    work.complete([job], "writing")
    job.marker.write_text('{"fingerprint": ')
    assert finished(job) is None


def test_an_attempt_whose_run_has_ended_brings_nothing_back(work: Workshop) -> None:
    job = Writing(number=7, folder=work.folder / "written")
    work.complete([job], "writing")
    forget([job])
    job.folder.rmdir()
    with pytest.raises(FileNotFoundError):
        perform(job)
    assert not job.folder.exists()
