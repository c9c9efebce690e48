"""Rows as users ask for them: values of Python, views of the file by NumPy, or tensors of torch."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import numpy as np
import pyarrow as pa

from gristmill.arrow.files import Row
from gristmill.core.extras import extra


def numpy_rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows in which numbers and lists of numbers without nulls are read-only views of the file."""
    names = batch.schema.names
    if not names:
        return [{} for _ in range(len(batch))]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_numpy_values, batch.columns), strict=True)]


def _numpy_values(column: pa.Array) -> Sequence[object]:
    kind = column.type
    if _is_number(kind) and not column.null_count:
        return list(column.to_numpy())
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if listed and _is_number(kind.value_type) and not column.null_count and not column.values.null_count:
        flat, edges = column.values.to_numpy(), column.offsets.to_pylist()
        return [flat[first:end] for first, end in itertools.pairwise(edges)]
    values: list[object] = column.to_pylist()
    return values


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def torch_row(row: Row) -> Row:
    """A row with tensors for its numbers and lists of numbers: int64, float32 and bool, as `datasets` makes them."""
    torch = _torch()
    return {name: _tensor(torch, value) for name, value in row.items()}


def _torch() -> ModuleType:
    with extra("torch", 'with_format("torch")'):
        return importlib.import_module("torch")  # by name: what reads rows does without it


def _tensor(torch: ModuleType, value: object) -> object:
    """A number or an even list of numbers as a tensor; what holds anything else stays, its parts made so."""
    if isinstance(value, Mapping):
        return {name: _tensor(torch, each) for name, each in value.items()}
    if isinstance(value, list):
        if not value or not {*map(type, value)} <= {int, float, bool}:
            return _stacked(torch, [_tensor(torch, each) for each in value])
    elif not isinstance(value, int | float | np.number | np.bool_ | np.ndarray):
        return value
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iufb":
        return value
    return torch.tensor(numbers.astype({"f": np.float32, "b": np.bool_}.get(numbers.dtype.kind, np.int64)))


def _stacked(torch: ModuleType, parts: list[object]) -> object:
    if not parts or not all(isinstance(part, torch.Tensor) for part in parts):
        return parts
    kinds = {(part.shape, part.dtype) for part in parts}  # type: ignore[attr-defined]
    return torch.stack(parts) if len(kinds) == 1 else parts


# How rows are read in a format, and what is made of an example at the end, after functions have added to it.
READ: Mapping[str, Callable[[pa.RecordBatch], list[Row]]] = {
    "python": pa.RecordBatch.to_pylist,
    "numpy": numpy_rows,
    "torch": lambda batch: [torch_row(row) for row in numpy_rows(batch)],
}
GIVEN: Mapping[str, Callable[[Row], Row]] = {"torch": torch_row}
