"""The documents' names: read from `.docs.parquet` by row group, found by `.ids` without a scan."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill.core.errors import StoreError
from gristmill.store.files import Files, Ints
from gristmill.store.format import IDS_HEADER, IDS_MAGIC, hash_ids
from gristmill.store.maps import map_file, unmap, view
from gristmill.store.table import offsets

DOCS_SUFFIX, IDS_SUFFIX = ".docs.parquet", ".ids"


class NamedDocuments:
    """The documents of a store made by Gristmill."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._row_group = functools.lru_cache(maxsize=64)(self._read_row_group)
        self._layout = functools.lru_cache(maxsize=1024)(self._read_layout)

    def record(self, shard: int, row: int) -> dict[str, Any]:
        """The row of `.docs.parquet` for one document."""
        starts = self._layout(shard)
        group = int(np.searchsorted(starts, row, side="right")) - 1
        table = self._row_group(shard, group)
        return {name: table.column(name)[row - int(starts[group])].as_py() for name in table.column_names}

    def rows_of(self, shard: int, hashes: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
        """(which hash, row) for each of the hashed ids that the shard may hold."""
        address, size = map_file(self._files.sibling(shard, IDS_SUFFIX))
        try:
            head = view(address, "u1", IDS_HEADER).tobytes() if size >= IDS_HEADER else b""
            count = int.from_bytes(head[8:16], "little")
            if head[:8] != IDS_MAGIC or size != IDS_HEADER + 12 * count:
                raise StoreError(f"{self._files.sibling(shard, IDS_SUFFIX)} is damaged: make the store again.")
            known = view(address + IDS_HEADER, "<u8", count)
            rows = view(address + IDS_HEADER + 8 * count, "<u4", count)
            left = np.searchsorted(known, hashes, side="left")
            right = np.searchsorted(known, hashes, side="right") if (left < count).any() else left
            spans = zip(left.tolist(), right.tolist(), strict=True)
            return [(i, int(rows[j])) for i, (a, b) in enumerate(spans) for j in range(a, b)]
        finally:
            unmap(address, size)

    def locate(self, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """For each id the (shard, row) of its documents: one bisection a shard, then the id itself is compared."""
        found: dict[str, list[tuple[int, int]]] = {text: [] for text in ids}
        hashes = hash_ids(list(ids))
        for shard in range(len(self._files)):
            for i, row in self.rows_of(shard, hashes):
                if self.record(shard, row)["id"] == ids[i]:
                    found[ids[i]].append((shard, row))
        return found

    def _open(self, shard: int) -> Any:
        import pyarrow.parquet as pq

        path = self._files.sibling(shard, DOCS_SUFFIX)
        try:
            return pq.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read ({error}): restore it or make the store again.") from error

    def _read_layout(self, shard: int) -> Ints:
        with self._open(shard) as file:
            counts = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        return offsets(np.array(counts, dtype=np.int64))

    def _read_row_group(self, shard: int, group: int) -> Any:
        with self._open(shard) as file:
            return file.read_row_group(group, use_threads=False)


class NumberedDocuments:
    """The documents of foreign files, which have no names: `FILE:ROW`, FILE without folder and suffix."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def record(self, shard: int, row: int) -> dict[str, Any]:
        """The name by number, and the file."""
        name = self._files.stem(shard)
        return {"id": f"{name}:{row}", "source": name, "path": os.path.basename(self._files.path(shard))}

    def locate(self, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """For each id the (shard, row) that it spells, whether the shard has such a row or not."""
        found: dict[str, list[tuple[int, int]]] = {text: [] for text in ids}
        wanted = {text: text.rpartition(":") for text in found}
        for shard in range(len(self._files)):
            stem = self._files.stem(shard)
            for text, (name, _, row) in wanted.items():
                if name == stem and row.isdigit():
                    found[text].append((shard, int(row)))
        return found
