"""A batch of documents as rules see it: the bytes of all texts, where each begins, and columns that rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar, cast

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import SourceError
from gristmill.core.texts import Texts, arrow_texts

# Positions inside a document are 32-bit numbers.
MAX_DOCUMENT_BYTES = (1 << 31) - 1


class Shared(Protocol):
    """Columns that more than one rule reads, such as the words of each document."""

    def take(self, rows: Ints) -> Self:
        """The same columns for these documents only, in this order."""


T = TypeVar("T", bound=Shared)


class Documents(Texts):
    """A record batch whose `text` is open to compiled code. Nothing is copied; nothing is changed in place.

    `number` makes the batch of what was read, once somebody asks for it: where no step does, nobody will.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        shared: dict[str, Shared] | None = None,
        number: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    ) -> None:
        self._read, self._number = batch, number
        texts = arrow_texts(batch.column("text"))
        super().__init__(texts.data, texts.offsets)
        self._shared = shared or {}
        if int(self.offsets[-1] - self.offsets[0]) > MAX_DOCUMENT_BYTES < int(np.diff(self.offsets).max()):
            row = int(np.diff(self.offsets).argmax())
            raise SourceError(f"Document {batch.column('id')[row]} is longer than 2 GiB: split it.")

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The documents with all of their columns."""
        return self._number(self._read) if self._number else self._read

    def shared(self, name: str, make: Callable[[Documents], T]) -> T:
        """The shared columns `name`, made when first asked for; they follow the documents through `take`."""
        if name not in self._shared:
            self._shared[name] = make(self)
        return cast(T, self._shared[name])

    def take(self, rows: Ints) -> Documents:
        """These documents only, with their shared columns."""
        taken = self.batch.take(pa.array(rows, pa.int64()))
        return Documents(taken, {name: columns.take(rows) for name, columns in self._shared.items()})

    def with_batch(self, batch: pa.RecordBatch) -> Documents:
        """The same documents and texts in a batch whose other columns differ."""
        return Documents(batch, self._shared)

    def with_text(self, data: Bytes, offsets: Ints) -> Documents:
        """The same documents with other texts: `data` holds them end to end, valid UTF-8."""
        column = self.batch.schema.get_field_index("text")
        columns = list(self.batch.columns)
        columns[column] = text_column(data, offsets)
        return Documents(self.batch.from_arrays(columns, names=self.batch.schema.names))


def text_column(data: Bytes, offsets: Ints) -> pa.Array:
    """An Arrow column of texts over these bytes, without a copy."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, buffers[1], buffers[2])
