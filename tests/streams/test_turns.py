"""Turns: what a lane reads together, as blocks that can be begun with by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.sources.base import Format, InputFile, Mishaps, Part, expand
from gristmill.sources.units import Unit
from gristmill.streams.turns import Turn
from gristmill.streams.units import Units

from .conftest import Files, tars_of

FORMATS = {"data": Format()}


def blocks(turn: Turn, name: int = 0) -> list[tuple[int, list[str]]]:
    return [(name, batch.column("id").to_pylist()) for name, batch in turn.blocks(name, Mishaps())]


@pytest.mark.parametrize("lanes", [1, 5])
def test_a_turn_of_tars_goes_on_from_any_of_its_blocks(files: Files, lanes: int) -> None:
    folder = tars_of(files(count=3, rows=60))
    units = Units(expand("data", [str(folder)]), FORMATS, lanes)
    turn = Turn([units[i] for i in range(len(units))], FORMATS, 700)
    whole = blocks(turn)
    names = [name for name, _ in whole]
    assert len(names) > 20 and names == sorted(set(names))
    for i, name in enumerate(names):
        assert blocks(turn, name) == whole[i:]
    assert sorted(id for _, ids in whole for id in ids) == sorted(f"{i}-{j}" for i in range(3) for j in range(60))


def test_a_turn_that_cannot_seek_gives_all_its_blocks_by_number(files: Files) -> None:
    folder = files(count=1, rows=60)
    units = Units(expand("data", [str(folder)]), FORMATS, 1)
    turn = Turn([units[0]], FORMATS, 700)
    assert [name for name, _ in blocks(turn, 3)] == list(range(len(blocks(turn))))


def test_places_beyond_32_bits_are_refused() -> None:
    part = Part(InputFile("data", Path("a.tar"), "a.tar"), size=1 << 40)
    Turn([Unit("data", (part,))], FORMATS, 700)
    with pytest.raises(ConfigError, match="choose a smaller hold"):
        Turn([Unit("data", (part,))] * 3, FORMATS, 700)


def test_blocks_do_not_depend_on_how_documents_are_batched(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tars_of(files(count=1, rows=60))
    unit = Units(expand("data", [str(folder)]), FORMATS, 1)[0]
    wanted = blocks(Turn([unit], FORMATS, 700))
    monkeypatch.setattr("gristmill.sources.webdataset.BATCH_DOCUMENTS", 7)
    assert blocks(Turn([unit], FORMATS, 700)) == wanted
