"""The tables of a query whose files lie elsewhere: of each, the columns that its SQL names, read through the door."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.local import disk_errors

Tables = Mapping[str, Sequence[Address]]
# Files that are read at once: requests wait, processors do not.
_AT_ONCE = 16
_COUNTED = re.compile(r"\bCOUNT\(\*\)", re.IGNORECASE)


def columns_of(sql: str, names: Sequence[str]) -> list[str]:
    """Those columns of a table that a statement may read: all where it says `*`, and one at least.

    Texts are by far the largest column of all, and no query over documents names it.
    """
    rest = _COUNTED.sub("", sql)
    if "*" in rest:
        return list(names)
    words = set(re.findall(r"\w+", rest))
    return [name for name in names if name in words] or list(names[:1])


def schema_of(file: Address, sql: str) -> pa.Schema:
    """These columns of a file."""
    with place_at(file).arrow() as source, pq.ParquetFile(source) as found:
        schema = found.schema_arrow
    return pa.schema([schema.field(name) for name in columns_of(sql, schema.names)])


def groups_of(file: Address, sql: str) -> Iterator[pa.Table]:
    """The row groups of a file, with these columns; one without rows where it has none."""
    with place_at(file).arrow() as source, pq.ParquetFile(source) as found:
        columns = columns_of(sql, found.schema_arrow.names)
        for group in [[group] for group in range(found.num_row_groups)] or [[]]:
            # What another engine has noted in a file is no part of its rows.
            yield found.read_row_groups(group, columns, use_threads=False).replace_schema_metadata(None)


def brought(sql: str, tables: Tables, folder: Path) -> dict[str, list[Path]]:
    """Files of this machine for all tables: themselves, or copies in `folder` of what the query reads of them."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = {
            name: [threads.submit(_brought, sql, file, folder / f"{name}-{number:08d}.parquet")
                   for number, file in enumerate(files)]
            for name, files in tables.items()
        }  # fmt: skip
        return {name: [file.result() for file in files] for name, files in found.items()}


def _brought(sql: str, file: Address, to: Path) -> Path:
    if isinstance(file, Path):
        return file
    writer: pq.ParquetWriter | None = None
    for rows in groups_of(file, sql):
        with disk_errors(to):
            writer = writer or pq.ParquetWriter(to, rows.schema, compression="lz4")
            writer.write_table(rows)
    if writer:
        writer.close()
    return to
