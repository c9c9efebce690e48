"""The values of a table's columns as text: each is spelt as JSON spells it, so that ids are the same in every format.

Strings as they are; whole numbers by their digits; other numbers as the shortest decimal that means them (`2.0`,
`1e+16`, `NaN`), as Python's json writes it; bytes that are no text, and those of a fixed length (UUIDs), as hexadecimal
digits; nested values as compact JSON; dates and times as Arrow spells them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Mask

Sizes = npt.NDArray[np.int64]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def spellable(kind: pa.DataType) -> bool:
    """Whether values of this type can be text."""
    kind = _plain(kind)
    if pa.types.is_nested(kind):
        return True
    try:
        pa.array([], kind).cast(pa.string())
    except pa.ArrowException:
        return False
    return True


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without the wrappings that say how values are stored or what they mean."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return _plain(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


@dataclass(frozen=True)
class Cells:
    """The values of a column, checked in full; `text` says whether they should be text."""

    values: pa.Array
    text: bool

    @classmethod
    def of(cls, column: pa.Array) -> Cells:
        """Check a column: its offsets, views, indices and UTF-8. If UTF-8 alone is wrong, its bytes are kept."""
        text = is_text(column.type)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            if not text:
                raise
            column = _bytes_of(column)
            column.validate(full=True)
        return cls(column, text)

    def slice(self, begin: int, end: int) -> Cells:
        """Some of the values."""
        return replace(self, values=self.values.slice(begin, end - begin))

    def take(self, chosen: Mask) -> Cells:
        """The values that are chosen."""
        return self if chosen.all() else replace(self, values=self.values.filter(pa.array(chosen)))

    def sizes(self) -> Sizes:
        """How many bytes each value takes, where a dictionary or views would repeat them."""
        return _sizes(self.values)

    def strings(self) -> tuple[pa.Array, Mask]:
        """The values as large strings, and which of them should be text but are no UTF-8: these are null."""
        return _strings(self.values, self.text)


def _bytes_of(column: pa.Array) -> pa.Array:
    """Strings as the bytes that they are; nothing is copied, and nothing is looked at."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _bytes_of(column.dictionary), safe=False)
    kinds = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    return column.view(kinds[column.type])


def _sizes(column: pa.Array) -> Sizes:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _sizes(column.storage)
    if pa.types.is_dictionary(kind):
        known = np.append(_sizes(column.dictionary), 0)
        places = column.indices.cast(pa.int64()).fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(known[places])
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1] or b"", np.int32, (column.offset + len(column)) * 4)
        return views[column.offset * 4 :: 4].astype(np.int64)
    if _is_bytes(kind) or is_text(kind):
        return np.asarray(pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    return np.full(len(column), column.nbytes // max(len(column), 1), np.int64)


def _strings(column: pa.Array, text: bool) -> tuple[pa.Array, Mask]:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _strings(column.storage, text)
    if pa.types.is_dictionary(kind):
        return _strings(column.dictionary_decode(), text)
    if _is_bytes(kind):
        values = column.to_pylist()
        bad = np.array([value is not None and not _is_utf8(value) for value in values], np.bool_)
        spelt = [None if value is None or (text and wrong) else value.hex() if wrong else value.decode("utf-8")
                 for value, wrong in zip(values, bad.tolist(), strict=True)]  # fmt: skip
        return pa.array(spelt, pa.large_string()), bad & text
    return _spelt(column), np.zeros(len(column), np.bool_)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _spelt(column: pa.Array) -> pa.Array:
    """Values that are no bytes of any length, as large strings."""
    kind = column.type
    if is_text(kind):
        return column.cast(pa.large_string())
    if pa.types.is_fixed_size_binary(kind):
        spell: Callable[..., str] = bytes.hex
    elif pa.types.is_floating(kind):
        spell = functools.partial(_decimal, width=np.dtype(f"f{kind.bit_width // 8}").type)
    elif pa.types.is_nested(kind):
        spell = _compact
    else:
        return column.cast(pa.string()).cast(pa.large_string())
    return pa.array([None if value is None else spell(value) for value in column.to_pylist()], pa.large_string())


def _decimal(value: float, width: type[np.floating]) -> str:
    """The shortest decimal that means this number in its own width."""
    return json.dumps(float(str(width(value))))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_other)


def _other(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
