"""Rows as users ask for them: values of Python, views of the file by NumPy, or tensors of torch.

What an entry becomes depends on the type of its column and on the entry alone, never on the rows beside it: a row is
the same wherever reading began. A null is None.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.arrow.files import Row
from gristmill.core.extras import extra

# What makes one value of many: a column of entries, or the parts of a list.
Join = Callable[[list[Any]], object]


def numpy_rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows in which numbers and lists of numbers without nulls are read-only views of the file."""
    names = batch.schema.names
    if not names:
        return [{} for _ in range(len(batch))]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_numpy_values, batch.columns), strict=True)]


def _numpy_values(column: pa.Array) -> list[Any]:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage  # as where nobody has registered the extension
    kind = column.type
    if _is_number(kind):
        values = _numbers(column)
    elif pa.types.is_struct(kind):
        values = _structs(column)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _lists(column, column.offsets.to_numpy())
    elif pa.types.is_fixed_size_list(kind):
        values = _lists(column, np.arange(column.offset, column.offset + len(column) + 1) * kind.list_size)
    else:
        return list(column.to_pylist())
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _flat(column: pa.Array) -> Any:
    """The numbers of a column, a view of the file unless they are bits; where there is a null, anything."""
    if column.null_count:
        column = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], 0, column.offset)
    return column.to_numpy(zero_copy_only=False)


def _numbers(column: pa.Array) -> list[Any]:
    flat = _flat(column)
    return list(flat) if flat.dtype != np.bool_ else [np.asarray(value) for value in flat]


def _structs(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    parts = [list(map(_pointed, _numpy_values(part))) for part in column.flatten()]
    if not names:
        return [{} for _ in range(len(column))]
    return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]


def _pointed(value: Any) -> Any:
    """A number as an array without dimensions, which is what `datasets` makes of one that has no column of its own."""
    return np.asarray(value) if isinstance(value, np.number) else value


def _lists(column: pa.Array, edges: Any) -> list[Any]:
    """Lists of numbers as parts of the flat ones; others, and those that hold a null, entry by entry."""
    inner = column.values.slice(edges[0], edges[-1] - edges[0])
    pairs = list(itertools.pairwise((edges - edges[0]).tolist()))
    if _is_number(inner.type):
        flat = _flat(inner)
        found = [flat[first:end] for first, end in pairs]
        if not inner.null_count:
            return found
        nulls = np.cumsum([0, *inner.is_null().to_pylist()])
        return [
            value if nulls[first] == nulls[end] else inner.slice(first, end - first).to_pylist()
            for value, (first, end) in zip(found, pairs, strict=True)
        ]
    parts = _numpy_values(inner)
    return [numpy_joined(parts[first:end]) for first, end in pairs]


def numpy_joined(parts: list[Any]) -> object:
    """Arrays and numbers of one shape and type as an array; anything else as an array of objects."""
    if parts and all(isinstance(part, np.ndarray | np.number) for part in parts):
        first = parts[0]
        if all(part.shape == first.shape and part.dtype == first.dtype for part in parts):
            return np.stack(parts)
    joined = np.empty(len(parts), dtype=object)
    for place, part in enumerate(parts):  # at once, arrays that happen to be even would be spread out
        joined[place] = part
    return joined


def numpy_row(row: Row) -> Row:
    """A row with arrays for what functions added, as `datasets` makes them."""
    return {name: _array(value) for name, value in row.items()}


def _array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else numpy_joined([_array(each) for each in value])
    if isinstance(value, Mapping):
        return {name: _array(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return numpy_joined([_array(each) for each in value])
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()[()]
    if isinstance(value, bool | int | float | np.bool_) and not isinstance(value, np.number):
        return np.asarray(value)
    return value


def torch_row(row: Row) -> Row:
    """A row with tensors for its numbers and lists of numbers: int64, float32 and bool, as `datasets` makes them."""
    torch = _torch()
    return {name: _tensor(torch, value) for name, value in row.items()}


def _torch() -> ModuleType:
    with extra("torch", 'with_format("torch")'):
        return importlib.import_module("torch")  # by name: what reads rows does without it


def _tensor(torch: ModuleType, value: object) -> object:
    """A number or an even list of numbers as a tensor; what holds anything else stays, its parts made so."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = list(value)
    if isinstance(value, Mapping):
        return {name: _tensor(torch, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        if {*map(type, value)} not in ({int}, {float}, {bool}):
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


def torch_joined(parts: list[Any]) -> object:
    """Tensors of one shape and type as a tensor; anything else as it is."""
    return _stacked(_torch(), parts)


def columns_of(rows: Sequence[Row], format: str = "python") -> Row:
    """Rows in a format as columns in it: all that any of them has, None where one has it not."""
    names: Any = rows[0].keys()
    if any(row.keys() != names for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
    else:
        columns = {name: [row[name] for row in rows] for name in names}
    join = JOINED.get(format)
    return {name: join(values) for name, values in columns.items()} if join else columns


# How rows are read in a format; what is made of a row that is in another one, or to which a function has added; and
# how entries become a column. The values of a row that is asked for in Python's stay what they are.
READ: Mapping[str, Callable[[pa.RecordBatch], list[Row]]] = {
    "python": pa.RecordBatch.to_pylist,
    "numpy": numpy_rows,
    "torch": lambda batch: [torch_row(row) for row in numpy_rows(batch)],
}
MADE: Mapping[str, Callable[[Row], Row]] = {"numpy": numpy_row, "torch": torch_row}
JOINED: Mapping[str, Join] = {"numpy": numpy_joined, "torch": torch_joined}


def conversions(steps: Sequence[tuple[str, bool]]) -> list[Callable[[Row], Row] | None]:
    """What each step needs done to its rows first, by its format and whether it adds to rows.

    Rows are read in the format of the first one. As in `datasets`, a step in Python's format leaves them as they come.
    """
    found: list[Callable[[Row], Row] | None] = []
    held, mixed = steps[0][0], False
    for format, adds in steps:
        found.append(MADE.get(format) if format != held or mixed else None)
        if format in MADE:
            held, mixed = format, False
        mixed |= adds
    return found
