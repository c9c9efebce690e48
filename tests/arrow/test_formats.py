"""Rows as values, as views, and as the tensors that `datasets` makes."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch

from gristmill.arrow.formats import READ, numpy_rows, torch_row

ROWS = {
    "n": [1, 2], "x": [0.5, 1.5], "flag": [True, False], "text": ["a", "b"], "even": [[[1, 2], [3, 4]]] * 2,
    "ragged": [[[1], [2, 3]]] * 2, "none": [[], [1]], "part": [{"a": 1, "b": "c"}] * 2, "names": [["p", "q"]] * 2,
}  # fmt: skip


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return isinstance(ours, torch.Tensor) and ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(theirs, dict):
        return all(same(ours[name], theirs[name]) for name in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def test_tensors_are_those_of_datasets() -> None:
    theirs = datasets.Dataset.from_dict(ROWS).with_format("torch")
    ours = READ["torch"](pa.RecordBatch.from_pydict(ROWS))
    assert all(same(mine, dict(other)) for mine, other in zip(ours, theirs, strict=True))


def test_what_functions_add_becomes_tensors_too() -> None:
    row = torch_row(
        {"a": 3, "b": np.arange(2, dtype=np.int32), "c": [torch.ones(2), torch.ones(2)], "d": None, "e": "t"}
    )
    assert row["a"].dtype == row["b"].dtype == torch.int64 and row["c"].shape == (2, 2)
    assert row["d"] is None and row["e"] == "t"


COLUMNS = {
    "n": pa.array([1, None, 3, 4], pa.int32()),
    "flag": pa.array([True, None, False, True]),
    "tokens": pa.array([[1], None, [], [2, None]], pa.list_(pa.int64())),
    "flags": pa.array([[True, False], [], None, [True]]),
    "pair": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int64(), 2)),
    "deep": pa.array([[[1], [2, 3]], [[4, 5]], None, []], pa.list_(pa.list_(pa.int64()))),
    "part": pa.array([{"a": 1, "b": [1]}, None, {"a": None, "b": []}, {"a": 2, "b": None}]),
    "names": pa.array([["a"], [], None, ["b", None]]),
    "none": pa.nulls(4),
}


def spelt(value: Any) -> Any:
    """A value with its types, for comparing."""
    if isinstance(value, dict):
        return {name: spelt(each) for name, each in value.items()}
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [type(value).__name__, *map(spelt, value)]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return [type(value).__name__, str(value.dtype), value.tolist()]
    return value


@pytest.mark.parametrize("format", ["numpy", "torch"])
def test_what_an_entry_becomes_does_not_depend_on_the_rows_beside_it(format: str) -> None:
    whole = pa.RecordBatch.from_pydict(COLUMNS)
    for first in range(4):
        for end in range(first + 1, 5):
            some = [spelt(row) for row in READ[format](whole.slice(first, end - first))]
            assert some == [spelt(READ[format](whole.slice(i, 1))[0]) for i in range(first, end)]


def test_entries_are_arrays_by_the_type_of_their_column() -> None:
    one, two, three, four = numpy_rows(pa.RecordBatch.from_pydict(COLUMNS))
    assert one["n"].dtype == np.int32 and two["n"] is None
    assert one["flag"].dtype == np.bool_ and one["flags"].tolist() == [True, False] and three["flags"] is None
    assert two["flags"].dtype == np.bool_ and three["tokens"].dtype == np.int64 and four["tokens"] == [2, None]
    assert one["pair"].tolist() == [1, 2] and one["pair"].dtype == np.int64 and two["pair"] is None
    assert two["deep"].shape == (1, 2) and [part.tolist() for part in one["deep"]] == [[1], [2, 3]]
    assert two["part"] is None and three["part"]["a"] is None and one["part"]["b"].dtype == np.int64


def test_numpy_entries_are_those_of_datasets() -> None:
    theirs = datasets.Dataset.from_dict(ROWS).with_format("numpy")
    for mine, other in zip(numpy_rows(pa.RecordBatch.from_pydict(ROWS)), theirs, strict=True):
        assert spelt(mine | {"part": None}) == spelt(dict(other) | {"part": None})
        assert {name: value.tolist() if name == "a" else value for name, value in other["part"].items()} == mine["part"]
