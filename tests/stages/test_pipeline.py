"""What a run's own process does: it asks for work, and reads none of what grows with the corpus."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import SourceError
from gristmill.engine.base import P, R, part_of
from gristmill.engine.inline import InlineEngine
from gristmill.places.local import Local
from gristmill.sources.units import Unit
from gristmill.stages.pipeline import _numbers
from gristmill.stages.relation import UNITS_A_SOURCE


class Watched(InlineEngine):
    """Knows whether it is at work, and gives the rows of each query in three files."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(1 << 28, scratch)
        self.at_work = False

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        for part in parts:
            self.at_work = True
            result = function(part)
            self.at_work = False
            yield result

    def query(self, sql: str, tables: Any, out: Path) -> list[Path]:
        self.at_work = True
        (whole,) = super().query(sql, tables, out)
        table = pq.read_table(whole)
        edges = [len(table) * i // 3 for i in range(4)]
        files = [part_of(out, number) for number in range(3)]
        for file, (first, stop) in zip(files, itertools.pairwise(edges), strict=True):
            pq.write_table(table.slice(first, stop - first), file)
        whole.unlink()
        self.at_work = False
        return files


def test_the_driver_reads_nothing_that_grows_with_the_corpus(
    run: Callable[..., Path], read: Callable[[Path], Any], whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, opened = Watched(tmp_path / "scratch"), list[str]()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any, *arguments: Any, **options: Any) -> Any:
            if not engine.at_work and not isinstance(path, pa.NativeFile):  # which `arrow` has opened
                opened.append(Path(getattr(path, "path", path)).relative_to(tmp_path / "store").as_posix())
            return function(path, *arguments, **options)

        return noted

    for name in ("ParquetFile", "read_table", "read_metadata"):
        monkeypatch.setattr(pq, name, noting(getattr(pq, name)))
    for name in ("checksum", "arrow"):
        monkeypatch.setattr(Local, name, noting(getattr(Local, name)))
    store = run("store", engine=engine)
    engine.close()
    assert {name.split("/")[1] if name.startswith(".work") else name for name in opened} == {
        "id", "crowded", "largest", "counts", "tokenizer.json", "inputs.parquet", "funnel.json",
    }  # fmt: skip
    assert read(store) == whole


def test_units_are_numbered_by_source_and_place() -> None:
    units = [Unit(name, ()) for name in ("a", "a", "c")]
    assert _numbers(units, ["a", "b", "c"]) == [0, 1, 2 * UNITS_A_SOURCE]
    with pytest.raises(SourceError, match=r"more than 1,048,576 units: split it in two"):
        _numbers([units[0]] * (UNITS_A_SOURCE + 1), ["a"])
