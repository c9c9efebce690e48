"""The seam between what is done and where: two verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

P = TypeVar("P")
R = TypeVar("R")


@runtime_checkable
class Engine(Protocol):
    """Runs narrow work by `map` and wide work by `query`.

    Queries are written in the SQL that DuckDB and Spark share: integers of 64 bits, strings, doubles that are only
    carried; no engine's own hash, no float aggregate; rows in an order that a unique key gives.
    """

    def start(self, function: Callable[[], None]) -> None:
        """Get ready in the background: each worker calls `function`, which loads what the work will need."""

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part, in the order of the parts. Both are pickled; a part names files rather than data."""

    def query(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> None:
        """Write the result of `sql`, over tables that are lists of Parquet files (at least one), to one Parquet file.

        The file appears whole or not at all. Rows have the order of the query's ORDER BY.
        """

    def close(self) -> None:
        """Give back what it holds."""
