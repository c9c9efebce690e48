"""Engines differ, what they give does not; whole stores are compared in tests/stages/test_same_bytes.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gristmill.engine.base import P, R
from gristmill.engine.inline import InlineEngine
from gristmill.engine.local import LocalEngine


class Backwards(InlineEngine):
    """An engine that does parts in another order than it gives their results."""

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        results = {i: function(parts[i]) for i in reversed(range(len(parts)))}
        return (results[i] for i in range(len(parts)))


def spark_engine(session: Any) -> Any:
    """Every query by Spark itself, however little it reads."""
    from gristmill.engine.spark import SparkEngine

    return SparkEngine(session, small_query=0)


def write_numbers(path: Path, numbers: Mapping[str, Sequence[Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(numbers)), path)
    return path


@pytest.fixture(params=["inline", "backwards", "local", "spark"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    scratch = tmp_path / "scratch"
    made: dict[str, Callable[[], Any]] = {
        "inline": lambda: InlineEngine(1 << 28, scratch),
        "backwards": lambda: Backwards(1 << 28, scratch),
        "local": lambda: LocalEngine(2, 1 << 28, scratch),
        "spark": lambda: spark_engine(request.getfixturevalue("spark")),
    }
    engine = made[request.param]()
    yield engine
    engine.close()


def test_results_come_in_the_order_of_the_parts(engine: Any) -> None:
    assert list(engine.map(math.factorial, range(30))) == [*map(math.factorial, range(30))]
    assert list(engine.map(math.factorial, [])) == []


def test_a_query_reads_many_files_and_gives_its_rows_in_order(engine: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    files = [write_numbers(tmp_path / f"it's {i}.parquet", {"a": [i, i + 10], "b": ["x", "é"]}) for i in range(5)]
    out = tmp_path / "out.parquet"
    found = engine.query("SELECT a, b FROM numbers WHERE a <> 3 ORDER BY a DESC", {"numbers": files}, out)
    assert pq.read_table(found)["a"].to_pylist() == [14, 13, 12, 11, 10, 4, 2, 1, 0]
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_query_that_fails_leaves_no_file(engine: Any, tmp_path: Path) -> None:
    file = write_numbers(tmp_path / "a.parquet", {"a": [1]})
    with pytest.raises(Exception, match="nothing"):
        engine.query("SELECT nothing FROM numbers", {"numbers": [file]}, tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["a.parquet"]
    engine.query("SELECT a FROM numbers", {"numbers": [file]}, tmp_path / "out.parquet")
