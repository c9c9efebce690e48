"""Rows as values, as views, and as the tensors that `datasets` makes."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import torch

from gristmill.arrow.formats import READ, torch_row

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
