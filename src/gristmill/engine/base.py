"""The seam between what is done and where: two verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from gristmill.places.address import Address

P = TypeVar("P")
R = TypeVar("R")
# How folders of copies are called, in the scratch folder of an engine that needs files of this machine.
BROUGHT = "brought-"


@dataclass(frozen=True)
class Means:
    """What a run gives its engine: processes, bytes of memory, a folder to spill to, and the address of a cluster."""

    workers: int
    memory: int
    scratch: Path
    master: str | None = None
    remote: str | None = None


@runtime_checkable
class Engine(Protocol):
    """Runs narrow work by `map` and wide work by `query`.

    Queries are written in the SQL that DuckDB and Spark share: integers of 64 bits, strings, doubles that are only
    carried; no engine's own hash, no float aggregate, no name that a user chose; rows in an order that a unique key
    without nulls gives. What only one of them can spell lives in that engine's own file.
    """

    def start(self, function: Callable[[], None]) -> None:
        """Get ready in the background: each worker calls `function`, which loads what the work will need."""

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part, in the order of the parts. Both are pickled; a part names files rather than data.

        It may be called twice for a part, even at once: what it writes appears whole, and is the same each time.
        """

    def query(self, sql: str, tables: Mapping[str, Sequence[Address]], out: Address) -> list[Address]:
        """The rows of `sql`, over tables that are lists of Parquet files (at least one), as Parquet files in order.

        That is `out`, or, where an engine writes several at once, some of `part_of(out, i)`; each appears whole. One
        file after the other they have the rows in the order of the query's ORDER BY. All may lie in object storage.
        """

    def close(self) -> None:
        """Give back what it holds."""


def is_elsewhere(engine: Engine | str) -> bool:
    """Whether an engine, or that of this name, may work on machines that do not see the disks of this one."""
    return engine != "local" if isinstance(engine, str) else getattr(engine, "elsewhere", False)


A = TypeVar("A", bound=Address)


def part_of(out: A, number: int, attempt: str = "") -> A:
    """Where one of several files of a query's rows lies, or would, if this `attempt` at it is the one that counts."""
    return out.with_name(f"{out.stem}-{number:05d}{attempt and '-'}{attempt}{out.suffix}")
