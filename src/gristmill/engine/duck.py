"""Wide work on one machine: DuckDB under a memory limit, spilling to disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from gristmill.core.errors import EngineError
from gristmill.engine.base import BROUGHT
from gristmill.engine.tables import brought
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.local import disk_errors, sync_directory, temporary_path

_MIB = 1 << 20


class Duck:
    """Queries over Parquet files by one connection (60 ms to open), which lives until `close`."""

    def __init__(self, memory: int, scratch: Path, threads: int) -> None:
        self._memory, self._scratch, self._threads = memory, scratch, threads
        self._opened: duckdb.DuckDBPyConnection | None = None

    def query(self, sql: str, tables: Mapping[str, Sequence[Address]], out: Address) -> list[Address]:
        """The rows of `sql` as one Parquet file, `out`, which appears whole or not at all."""
        with self._room() as room:
            here = brought(sql, tables, room)
            if isinstance(out, Path):
                self._write(sql, here, out)
            else:
                self._write(sql, here, room / out.name)
                place_at(out).copy(place_at(room / out.name))
        return [out]

    @contextmanager
    def _room(self) -> Iterator[Path]:
        """A folder for copies of tables that lie elsewhere, and of rows on their way there."""
        with disk_errors(self._scratch):
            self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=BROUGHT, dir=self._scratch) as room:
            yield Path(room)

    def _write(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> None:
        temporary = temporary_path(out)
        with disk_errors(out):
            try:
                self._copy_in_memory(sql, tables, temporary)
                with open(temporary, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(temporary, out)
                sync_directory(out.parent)
            except duckdb.OutOfMemoryException as error:
                raise EngineError(
                    f"The query for {out.name} does not fit into {self._memory // _MIB:,} MiB: give more memory=.",
                    arguments="memory",
                ) from error
            except duckdb.IOException as error:
                reason = str(error).splitlines()[0]
                raise EngineError(f"The query for {out.name} could not use the disk: {reason}.") from error
            finally:
                temporary.unlink(missing_ok=True)

    def _copy_in_memory(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> None:
        """Each thread holds buffers of its own: a query that does not fit with all of them is tried with one."""
        try:
            self._copy(sql, tables, out)
        except duckdb.OutOfMemoryException:
            if self._threads == 1:
                raise
            self._connection().execute("SET threads = 1")
            try:
                self._copy(sql, tables, out)
            finally:
                self._connection().execute(f"SET threads = {self._threads}")

    def _copy(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> None:
        connection = self._connection()
        for name, files in tables.items():
            connection.read_parquet([str(file) for file in files]).create_view(name, replace=True)
        quoted = str(out).replace("'", "''")
        connection.execute(f"COPY ({sql}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)")
        for name in tables:
            connection.execute(f'DROP VIEW "{name}"')

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._opened is None:
            self._scratch.mkdir(parents=True, exist_ok=True)
            self._opened = duckdb.connect(config={
                "memory_limit": f"{max(self._memory // _MIB, 64)}MiB",
                "temp_directory": str(self._scratch),
                "threads": self._threads,
                "preserve_insertion_order": True,
                "autoinstall_known_extensions": False,
            })  # fmt: skip
        return self._opened

    def close(self) -> None:
        """Give memory and scratch files back."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
