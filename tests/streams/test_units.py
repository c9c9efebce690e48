"""Files as units: small enough to begin at once, found by number, every document in one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.sources.base import Format, Mishaps, expand
from gristmill.sources.units import read_unit
from gristmill.streams.units import Units, unit_bytes

from .conftest import Files

KIB, MIB, GIB, TIB = (1 << 10, 1 << 20, 1 << 30, 1 << 40)


@pytest.mark.parametrize(("total", "lanes", "expected"), [
    (0, 1, 4 * KIB), (100 * KIB, 8, 4 * KIB), (10 * MIB, 8, 256 * KIB), (GIB, 64, MIB), (GIB, 8, MIB),
    (8 * GIB, 256, 256 * KIB), (GIB, 4096, 64 * KIB), (TIB, 64, MIB), (TIB, 2048, MIB * 2), (100 * TIB, 64, MIB * 128),
])  # fmt: skip
def test_units_are_small_and_at_most_a_million(total: int, lanes: int, expected: int) -> None:
    assert unit_bytes(total, lanes) == expected and total // expected <= 1 << 20


def documents(units: Units, format: Format) -> list[str]:
    each = (batch for i in range(len(units)) for batch in read_unit(units[i], format, Mishaps()))
    return [id for batch in each for id in batch.column("id").to_pylist()]


@pytest.mark.parametrize("lanes", [1, 7, 300])
def test_each_document_is_in_one_unit(files: Files, lanes: int) -> None:
    folder, format = files(count=3, rows=200), Format()
    units = Units(expand("data", [str(folder)]), {"data": format}, lanes)
    assert len(units) >= 3
    assert sorted(documents(units, format)) == sorted(f"{i}-{j}" for i in range(3) for j in range(200))


def test_the_fingerprint_is_that_of_names_and_sizes(files: Files, tmp_path: Path) -> None:
    here, there = (Units(expand("data", [str(files(folder=name))]), {"data": Format()}, 4) for name in ("one", "two"))
    assert here.fingerprint == there.fingerprint
    with open(tmp_path / "two" / "0.jsonl", "a") as file:
        file.write('{"text": "more"}\n')
    assert Units(expand("data", [str(tmp_path / "two")]), {"data": Format()}, 4).fingerprint != here.fingerprint
