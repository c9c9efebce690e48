"""Where a store comes from: its inputs, the run that made it, and the names of its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from gristmill.core.errors import GristmillError
from gristmill.core.values import parse_json
from gristmill.figures.tables import connection, rows
from gristmill.places.address import Address
from gristmill.places.door import place_at

INPUTS, RUN = "inputs.parquet", "run.json"
_FILES = 50
_SCHEMA = pa.schema(
    [("source", pa.string()), ("path", pa.string()), ("bytes", pa.int64()), ("fingerprint", pa.string())]
)


@dataclass(frozen=True)
class InputFile:
    """A file that was read; its fingerprint is of its content."""

    source: str
    path: str
    bytes: int
    fingerprint: str


@dataclass(frozen=True)
class SourceInputs:
    """The files of a source."""

    source: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Provenance:
    """Inputs by source, the first files of them, and what the run noted of itself."""

    sources: list[SourceInputs]
    files: list[InputFile]
    run: Mapping[str, object]


def provenance(root: Address) -> Provenance:
    """What lies beside the manifest; joined and imported stores have less of it."""
    sources, files = _inputs(root) if place_at(root / INPUTS).exists() else ([], [])
    return Provenance(sources, files, _run(root))


def _inputs(root: Address) -> tuple[list[SourceInputs], list[InputFile]]:
    with connection() as database:
        database.register("given", rows([str(root / INPUTS)], _SCHEMA))
        database.execute("CREATE TABLE inputs AS SELECT *, row_number() OVER () AS place FROM given")
        by_source = database.execute(
            "SELECT source, count(*), sum(bytes)::BIGINT FROM inputs GROUP BY 1 ORDER BY min(place)"
        ).fetchall()
        first = database.execute(
            f"SELECT source, path, bytes, fingerprint FROM inputs ORDER BY place LIMIT {_FILES}"
        ).fetchall()
    return [SourceInputs(*row) for row in by_source], [InputFile(*row) for row in first]


def _run(root: Address) -> Mapping[str, object]:
    """Times and the machine: a file that nothing depends on, so that a damaged one is as good as none."""
    if not place_at(root / RUN).exists():
        return {}
    try:
        values = parse_json(place_at(root / RUN).read(), str(root / RUN))
    except GristmillError:
        return {}
    return {key: value for key, value in values.items() if key != "sum"} if isinstance(values, dict) else {}
