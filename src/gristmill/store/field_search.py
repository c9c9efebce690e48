"""Find documents by a field of their table: the url, the path, or what was carried from the source."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gristmill.core.arguments import as_whole, refuse
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.store.documents import NamedDocuments
from gristmill.store.reader import Store


class FieldSearch:
    """Documents whose `field` is spelt `value`; it goes on for as long as it is iterated, a row group at a time.

    hits: documents that have it, of which `first` has the numbers of the first `limit`; read: those looked at, of
    `total`. Only the one column is read.
    """

    def __init__(self, store: Store, field: str, value: str, limit: int = 20) -> None:
        if not isinstance(value, str):
            raise refuse("value", "a text", value)
        self.store, self.field, self.value, self.limit = store, field, value, as_whole("limit", limit, 0)
        self.hits = self.read = 0
        self.total, self.first = store.num_documents, list[int]()
        known = fields_of(store)
        if field not in known:
            hint = did_you_mean(field, known) if known else ""
            raise ConfigError(f"The documents of {store.describe()} have no field {field!r}{hint}.")

    def __iter__(self) -> Iterator[FieldSearch]:
        """Search on; each item is the search itself, after one more row group."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert isinstance(self.store.names, NamedDocuments)
        for shard in range(self.store.num_shards):
            for column in self.store.names.columns(shard, self.field):
                try:
                    same = pc.equal(column.cast(pa.string()), self.value)
                except pa.ArrowException as error:
                    raise ConfigError(f"The field {self.field!r} cannot be searched ({error}).") from error
                rows = np.flatnonzero(same.fill_null(False).to_numpy())
                self.hits += len(rows)
                self.first += (rows[: self.limit - len(self.first)] + self.read).tolist()
                self.read += len(column)
                yield self


def fields_of(store: Store) -> list[str]:
    """What is noted of the documents of a store; nothing, where others made it."""
    return store.names.fields(0) if isinstance(store.names, NamedDocuments) and store.num_shards else []
