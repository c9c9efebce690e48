"""A store of rows, whoever holds them: what is found out before anything is published, and what a second run does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.engine.inline import InlineEngine
from gristmill.frames.making import Survey, prepare_frame
from gristmill.frames.recipe import frame_recipe
from gristmill.frames.rows import RowFiles, Written, low_sum

Row = tuple[str | None, str | None]
ROWS: list[Row] = [(f"d{i}", f"Text {i} has {i * i} grains.") for i in range(40)]


def number(*values: str | None) -> int:
    return int.from_bytes(hashlib.sha256(repr(values).encode()).digest()[:8], "little", signed=True)


@dataclass
class Listed:
    """A DataFrame that is a list; `changes` come with the second look at it."""

    rows: list[Row]
    changes: list[Row] = field(default_factory=list)
    scratch: Path = Path()
    writes: int = 0

    def survey(self) -> Survey:
        hashes = np.array([number(*row) for row in self.rows], np.int64)
        nulls = [id for id, text in self.rows if text is None]
        size = sum(len(text or "") for _, text in self.rows)
        xor = int(np.bitwise_xor.reduce(hashes)) if len(hashes) else 0
        return Survey(len(self.rows), size, xor, low_sum(hashes), len(nulls), min(map(str, nulls), default=None))

    def write(self, files: RowFiles, buckets: int) -> Iterable[Written]:
        self.writes += 1
        rows = sorted([*self.rows, *self.changes], key=lambda row: (number(row[0]), str(row)))
        yield from files([pa.record_batch([
            pa.array([0] * len(rows)), pa.array([number(*row) for row in rows]), pa.array([False] * len(rows)),
            pa.array([id for id, _ in rows], pa.string()), pa.array([text for _, text in rows], pa.string()),
        ], names=["bucket", "hash", "by_text", "c0", "c1"])])  # fmt: skip

    def engine(self, memory: int) -> Any:
        return InlineEngine(memory, self.scratch)


def make(rows: Listed, out: Path, **recipe: Any) -> gm.Store:
    rows.scratch = out.with_name("spill")
    made = frame_recipe({"tokenizer": "byte", "dedup": None, **recipe}, out, None, "id")
    prepare_frame(made, rows, False, False, {"work": str(out.with_name("work"))})
    return gm.open(out)


def test_the_store_has_each_row_once_under_its_id(tmp_path: Path) -> None:
    store = make(Listed(ROWS), tmp_path / "out", store={"val_fraction": 0})
    assert {document.id: document.text for document in store} == dict(ROWS)


def test_a_second_run_over_the_same_rows_does_not_write_them_again(tmp_path: Path) -> None:
    first, again, other = Listed(ROWS), Listed(ROWS[::-1]), Listed(ROWS[1:])
    make(first, tmp_path / "one")
    make(again, tmp_path / "two")
    make(other, tmp_path / "three")
    assert (first.writes, again.writes, other.writes) == (1, 0, 1)
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "two/manifest.json").read_bytes()


def test_what_other_attempts_left_is_swept(tmp_path: Path) -> None:
    left = tmp_path / "work" / "rows" / "00000000aaaaaaaaaaaaaaaa.parquet"
    make(Listed(ROWS[:9]), tmp_path / "one")
    left.write_bytes(b"half a file")
    make(Listed(ROWS), tmp_path / "two")
    assert not left.exists() and len(list(left.parent.glob("*.parquet"))) == 1


@pytest.mark.parametrize("changes", [[("new", "One more.")], [ROWS[3], ROWS[3]]])
def test_rows_that_change_while_they_are_read_are_found_out(tmp_path: Path, changes: list[Row]) -> None:
    with pytest.raises(gm.SourceError, match="does not give the same rows twice"):
        make(Listed(ROWS, changes), tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_row_without_text_is_named_or_counted(tmp_path: Path) -> None:
    rows = Listed([*ROWS, ("poison", None)])
    with pytest.raises(gm.SourceError, match=r"1 of 41 rows .* have no text in 'text'.*'poison'"):
        make(rows, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists() and rows.writes == 0
    store = make(rows, tmp_path / "out", on_error="skip", store={"val_fraction": 0})
    dropped = pq.read_table(tmp_path / "out" / "dropped.parquet").to_pylist()
    assert len(store) == 40 and [row["rule"] for row in dropped] == ["unreadable"]
    assert "(id 'poison')" in dropped[0]["detail"]


def test_an_id_that_two_rows_have_is_an_error_or_counted(tmp_path: Path) -> None:
    rows = [*ROWS, ("d7", "Another text.")]
    with pytest.raises(gm.SourceError, match="'d7'"):
        make(Listed(rows), tmp_path / "out")
    assert len(make(Listed(rows), tmp_path / "out", on_error="skip", store={"val_fraction": 0})) == 40


def test_a_dataframe_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gm.SourceError, match="no rows"):
        make(Listed([]), tmp_path / "out")


def test_a_worker_that_writes_where_nobody_else_sees_it_is_found_out(tmp_path: Path) -> None:
    class Elsewhere(Listed):
        def write(self, files: RowFiles, buckets: int) -> Iterable[Written]:
            for written in super().write(files, buckets):
                (Path(files.folder) / written.name).unlink()
                yield written

    with pytest.raises(gm.EngineError, match="all nodes see"):
        make(Elsewhere(ROWS), tmp_path / "out")
