"""Rows of a DataFrame as files: what a file holds depends on its rows alone, and each row is there once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import EngineError
from gristmill.frames.rows import GROUP_BYTES, GROUP_ROWS, Copies, RowFiles, Written, low_sum, row_sizes

LARGE = pa.large_string()


def batches(rows: pa.Table, size: int) -> list[pa.RecordBatch]:
    return rows.to_batches(max_chunksize=size)


def rows_of(texts: list[str], buckets: list[int] | None = None, by_text: bool = False) -> pa.Table:
    """Rows as an adapter sends them: bucket, hash, whether the text makes the id, id and text."""
    count = len(texts)
    return pa.table([
        pa.array(buckets or [0] * count, pa.int64()), pa.array(np.arange(count) * 7919 - 40),
        pa.array([by_text] * count), pa.array([f"d{i:09}" for i in range(count)]), pa.array(texts),
    ], names=["bucket", "hash", "by_text", "c0", "c1"])  # fmt: skip


def write(folder: Path, rows: pa.Table, size: int = 1000) -> list[Written]:
    folder.mkdir(exist_ok=True)
    return list(RowFiles(folder, ("id", "text"))(iter(batches(rows, size))))


def groups(path: Path) -> list[int]:
    found = pq.ParquetFile(path).metadata
    return [found.row_group(i).num_rows for i in range(found.num_row_groups)]


@pytest.mark.parametrize("size", [1, 17, 5000])
def test_the_bytes_of_a_file_do_not_depend_on_how_rows_were_batched(tmp_path: Path, size: int) -> None:
    texts = ["x" * (i * 37 % 5000) for i in range(5000)]
    (one,), (other,) = write(tmp_path / "a", rows_of(texts), 512), write(tmp_path / "b", rows_of(texts), size)
    assert len(groups(tmp_path / "a" / one.name)) > 1
    assert (tmp_path / "a" / one.name).read_bytes() == (tmp_path / "b" / other.name).read_bytes()


def test_each_bucket_is_a_file_that_holds_its_rows_once(tmp_path: Path) -> None:
    rows = rows_of([f"text {i}" for i in range(30)], [1] * 4 + [2] * 11 + [9] * 15)
    written = write(tmp_path, rows, 7)
    assert [(each.bucket, each.rows) for each in written] == [(1, 4), (2, 11), (9, 15)]
    tables = [pq.read_table(tmp_path / each.name) for each in written]
    assert pa.concat_tables(tables).column("text").to_pylist() == rows.column("c1").to_pylist()
    assert [each.size for each in written] == [(tmp_path / each.name).stat().st_size for each in written]


def test_the_answer_tells_the_hashes_of_all_rows(tmp_path: Path) -> None:
    rows = rows_of(["a", "b", "c", "d"])
    (written,) = write(tmp_path, rows, 3)
    hashes = rows.column("hash").to_numpy()
    assert (written.xor, written.low) == (np.bitwise_xor.reduce(hashes), low_sum(hashes))


def test_a_row_of_200_mb_is_a_row_group_by_itself(tmp_path: Path) -> None:
    (written,) = write(tmp_path, rows_of(["before", "y" * 200_000_000, "after"]))
    assert groups(tmp_path / written.name) == [1, 1, 1]


def test_a_million_rows_of_10_bytes_are_groups_of_some_thousands(tmp_path: Path) -> None:
    (written,) = write(tmp_path, rows_of(["ten bytes!"] * 1_000_000), 10_000)
    assert sum(found := groups(tmp_path / written.name)) == 1_000_000
    assert set(found[:-1]) == {GROUP_ROWS}


def test_no_group_passes_its_bytes_but_by_one_long_row(tmp_path: Path) -> None:
    texts = ["z" * (1 << 20)] * 20
    (written,) = write(tmp_path, rows_of(texts), 3)
    assert all(count * row_sizes(pa.record_batch({"text": pa.array(texts[:1], LARGE)}))[0] <= GROUP_BYTES
               for count in groups(tmp_path / written.name))  # fmt: skip


def test_equal_texts_that_make_ids_are_told_apart_across_batches() -> None:
    copies, yes = Copies(), pa.array([True] * 4)
    first = copies.numbered(pa.array(["a", "a", "b", "c"], LARGE), yes)
    second = copies.numbered(pa.array(["c", "c", "d", "d"], LARGE), yes)
    assert first.to_pylist() == ["a", "a~2", "b", "c"]
    assert second.to_pylist() == ["c~2", "c~3", "d", "d~2"]


def test_equal_ids_that_rows_brought_stay_so_that_the_run_can_tell_of_them() -> None:
    ids = pa.array(["a", "a", None, None], LARGE)
    assert Copies().numbered(ids, pa.array([False, False, True, True])).to_pylist() == ["a", "a", None, None]


def test_types_that_a_session_changes_become_one(tmp_path: Path) -> None:
    moments = pa.array([0, 3_600_000_000], pa.timestamp("us"))
    found = []
    for zone, kind in (("UTC", pa.string()), ("Europe/Berlin", pa.large_string())):
        table = rows_of(["a", "b"]).append_column("c2", moments.cast(pa.timestamp("us", zone)))
        table = table.set_column(4, "c1", table.column("c1").cast(kind))
        files = RowFiles(tmp_path, ("id", "text", "when"))
        (written,) = files(iter(batches(table, 2)))
        found.append((tmp_path / written.name).read_bytes())
    assert found[0] == found[1]


def test_a_failed_attempt_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield from batches(rows_of(["a"]), 1)
        raise RuntimeError("the worker ends")

    with pytest.raises(RuntimeError):
        list(RowFiles(tmp_path, ("id", "text"))(broken()))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_does_not_see_the_folder_says_so_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="all nodes see"):
        list(RowFiles(tmp_path / "elsewhere", ("id", "text"))(iter(batches(rows_of(["a"]), 1))))
    assert not (tmp_path / "elsewhere").exists()
