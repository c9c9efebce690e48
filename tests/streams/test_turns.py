"""Turns: what a lane reads together, as blocks that can be begun with by their names."""

from __future__ import annotations

import io
import itertools
import tarfile
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.sources.base import Format, InputFile, Mishaps, Part, expand
from gristmill.sources.units import Unit
from gristmill.streams.turns import END, Turn
from gristmill.streams.units import Units

from .conftest import Files, tars_of

FORMATS = {"data": Format()}


def blocks(turn: Turn, name: int = 0) -> list[tuple[int, list[str]]]:
    return [(name, batch.column("id").to_pylist()) for name, batch, _ in turn.blocks(name, Mishaps())]


def following(turn: Turn) -> list[tuple[int, int | None]]:
    return [(name, after) for name, _, after in turn.blocks(0, Mishaps())]


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
    told = following(turn)
    known = [(after, then) for (_, after), (then, _) in itertools.pairwise(told) if after is not None]
    assert len(known) > 10 and all(after == then for after, then in known) and told[-1][1] == END
    assert sorted(id for _, ids in whole for id in ids) == sorted(f"{i}-{j}" for i in range(3) for j in range(60))


def test_empty_tars_of_a_turn_are_told_wherever_they_stand(tmp_path: Path, files: Files) -> None:
    folder = tars_of(files(count=2, rows=5))
    for name in ("00.tar", "05.tar", "9.tar"):
        (folder / name).touch()
    units = Units(expand("data", [str(folder)]), FORMATS, 1)
    turn, mishaps = Turn([units[i] for i in range(len(units))], FORMATS, 1 << 20), Mishaps()
    assert sum(len(batch) for _, batch, _ in turn.blocks(0, mishaps)) == 10
    assert sorted(mishaps.empty) == ["00.tar", "05.tar", "9.tar"]


def test_no_block_is_said_to_go_on_where_something_unreadable_would_be_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(400):
            data = b"\xff" if i == 250 else b"word " * 20
            member = tarfile.TarInfo(f"{i:03d}.txt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    monkeypatch.setattr("gristmill.sources.tar._BUFFER_BYTES", 1 << 15)
    units = Units(expand("data", [str(tmp_path / "a.tar")]), FORMATS, 1)
    turn, mishaps = Turn([units[i] for i in range(len(units))], FORMATS, 700), Mishaps("skip")
    told = [(name, after, mishaps.skipped) for name, _, after in turn.blocks(0, mishaps)]
    places = [after for _, after, _ in told if after not in (None, END)]
    for after in places:
        before = next(skipped for _, following, skipped in told if following == after)
        again = Mishaps("skip")
        list(turn.blocks(after, again))
        assert before + again.skipped == 1
    assert len(places) > 20 and {skipped for _, after, skipped in told if after in places} == {0, 1}


def test_a_turn_that_cannot_seek_gives_all_its_blocks_by_number(files: Files) -> None:
    folder = files(count=1, rows=60)
    units = Units(expand("data", [str(folder)]), FORMATS, 1)
    turn = Turn([units[0]], FORMATS, 700)
    assert [name for name, _ in blocks(turn, 3)] == list(range(len(blocks(turn))))
    assert {after for _, after in following(turn)[:-1]} == {None} and following(turn)[-1][1] == END


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
