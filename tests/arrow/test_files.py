"""Rows of Arrow files at any position, and the arithmetic of their order."""

from __future__ import annotations

import itertools
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.arrow.files import MappedFile, Piece, count_rows, share_rows, shuffle_pieces
from gristmill.arrow.formats import numpy_rows
from gristmill.core.errors import SourceError

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("shuffle"), st.integers(0, 99), st.booleans()), st.tuples(st.just("shard"), st.integers(1, 5))
    ),
    max_size=4,
)


@given(st.lists(st.integers(1, 20), max_size=6), OPERATIONS)
@settings(deadline=None, max_examples=60)
def test_shuffling_and_sharding_in_any_order_loses_and_repeats_nothing(
    lengths: list[int], operations: list[Any]
) -> None:
    parts = [tuple(Piece(file, 3, length) for file, length in enumerate(lengths))]
    for kind, number, *rows in operations:
        if kind == "shuffle":
            parts = [shuffle_pieces(part, number, *rows) for part in parts]
        else:
            edges = [Fraction(index, number) for index in range(number + 1)]
            parts = [share_rows(part, *edge) for part in parts for edge in itertools.pairwise(edges)]
    read = [(piece.file, int(row)) for part in parts for piece in part for row in piece.rows(0, piece.length)]
    assert sorted(read) == [(file, 3 + row) for file, length in enumerate(lengths) for row in range(length)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """100 rows in record batches of 30, 30, 30 and 10."""
    table = pa.table({"id": range(100), "tokens": [list(range(i, i + i % 4)) for i in range(100)]})
    with pa.ipc.new_stream(tmp_path / "rows.arrow", table.schema) as stream:
        stream.write_table(table, max_chunksize=30)
    return str(tmp_path / "rows.arrow")


@given(rows=st.lists(st.integers(0, 99), min_size=1, max_size=80))
@settings(deadline=None, max_examples=40)
def test_any_rows_in_any_order(tmp_path_factory: pytest.TempPathFactory, rows: list[int]) -> None:
    place = tmp_path_factory.getbasetemp() / "any.arrow"
    if not place.exists():
        table = pa.table({"id": range(100)})
        with pa.ipc.new_stream(place, table.schema) as stream:
            stream.write_table(table, max_chunksize=30)
    taken = MappedFile(count_rows(str(place))).take(np.array(rows))
    assert [row["id"] for batch in taken for row in batch.to_pylist()] == rows


def test_neighbours_are_taken_together(path: str) -> None:
    assert [len(batch) for batch in MappedFile(count_rows(path)).take(np.arange(20, 95))] == [10, 30, 30, 5]


def test_rows_are_counted_without_the_content(path: str) -> None:
    file = count_rows(path)
    assert (file.rows, file.size, file.difference()) == (100, os.path.getsize(path), None)


@pytest.mark.parametrize("cut", [4, 8, 300])
def test_a_file_that_was_cut_off_is_not_counted(path: str, cut: int) -> None:
    os.truncate(path, os.path.getsize(path) - cut)
    with pytest.raises(SourceError, match="is cut off"):
        count_rows(path)


def test_what_is_no_arrow_stream_is_named(path: str) -> None:
    Path(path).write_bytes(b"text" * 100 + b"\xff\xff\xff\xff\0\0\0\0")
    with pytest.raises(SourceError, match=r"rows\.arrow cannot be read as an Arrow stream"):
        count_rows(path)


def test_a_file_that_changed_is_not_opened(path: str) -> None:
    file = count_rows(path)
    os.truncate(path, 100)
    with pytest.raises(SourceError, match=r"has 100 bytes instead of .*force_reindex=True"):
        MappedFile(file)
    os.unlink(path)
    with pytest.raises(SourceError, match="is missing"):
        MappedFile(file)


def test_numpy_rows_are_those_of_python(path: str) -> None:
    for batch in MappedFile(count_rows(path)).take(np.array([5, 6, 7, 31, 99, 0])):
        for ours, theirs in zip(numpy_rows(batch), batch.to_pylist(), strict=True):
            assert ours["id"] == theirs["id"] and ours["tokens"].tolist() == theirs["tokens"]


def test_numpy_keeps_what_is_no_number() -> None:
    rows: list[Any] = [
        {"maybe": None, "names": ["a"], "part": [1, None], "flag": True},
        {"maybe": 3, "names": [], "part": [], "flag": False},
    ]
    first, second = numpy_rows(pa.RecordBatch.from_pylist(rows))
    assert first["maybe"] is None and second["maybe"] == 3 and first["part"] == [1, None] and first["flag"]
    assert (first["names"].tolist(), second["names"].tolist(), second["part"].tolist()) == (["a"], [], [])


@pytest.mark.parametrize("kind", [pa.int64(), pa.struct([("NAMED", pa.int64())])])
def test_a_name_that_is_no_text_is_told_when_a_file_is_opened(tmp_path: Path, kind: pa.DataType) -> None:
    value = {"NAMED": 1} if pa.types.is_struct(kind) else 1
    table = pa.table({"NAMED" if value == 1 else "outer": pa.array([value], kind)})
    path = tmp_path / "a.arrow"
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"NAMED", b"\xff\xffMED"))
    with pytest.raises(SourceError, match="cannot be read as an Arrow stream"):
        count_rows(str(path))
