"""The folders of a run: apart from each other, refused before it begins, held until it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.folders import UNFINISHED
from gristmill.recipe import Recipe, SourceOptions
from gristmill.stages.folders import STEPS, RunFolders, is_work, is_work_of_store


def folders(tmp_path: Path, work: str | None = None, index: str | None = None) -> RunFolders:
    named = [str(tmp_path / name) if name else None for name in (work, index)]
    return RunFolders.of(Recipe(str(tmp_path / "out"), [SourceOptions("web", ["a"])], tokenizer="byte"), *named)


@pytest.mark.parametrize(
    ("work", "index"), [("out", None), ("out/w", None), (None, "out/i"), ("w", "w/i"), ("w/w", "w")]
)
def test_none_may_lie_in_another(tmp_path: Path, work: str | None, index: str | None) -> None:
    with pytest.raises(ConfigError, match="choose a folder beside it"):
        folders(tmp_path, work, index)


@pytest.mark.parametrize("name", ["out", "work", "index"])
def test_what_others_put_there_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt is no part of"):
        folders(tmp_path, "work", "index").look(overwrite=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["thesis.txt"]


def test_all_are_held_by_one_run(tmp_path: Path) -> None:
    own = folders(tmp_path, "work", "index")
    with own.held(overwrite=False) as making:
        assert making.folder.root == tmp_path / "out" and (tmp_path / "work" / UNFINISHED).exists()
        for other in (folders(tmp_path, "work"), folders(tmp_path, None, "index")):
            with pytest.raises(ConfigError, match="Another run is writing"), other.held(overwrite=False):
                pass
    assert not (tmp_path / "index" / UNFINISHED).exists() and (tmp_path / "work" / UNFINISHED).exists()


@pytest.mark.parametrize("step", STEPS)
def test_files_of_a_step_are_named_by_number(step: str) -> None:
    for name in ("", "00100003.json", "00000000.parquet", "00000000-00012.parquet"):
        assert is_work(f"{step}/{name}") and is_work_of_store(f".work/{step}/{name}")
    for name in (f"{step}.parquet", "notes.txt", "0.json", "00000000.txt", "deeper/00000000.json", "0000000g.json"):
        assert not is_work(f"{step}/{name}"), name


def test_other_names_are_not() -> None:
    assert is_work("shards/train-00000.json") and is_work(f"evaluations-{'0' * 32}/00000000.json")
    for name in ("", "mine/", "mine/00000000.json", "shards/test-00000.json", "evaluations-0/", "spill/mine"):
        assert not is_work(name), name
    assert is_work_of_store(".work/") and not is_work_of_store("curate/00000000.json")


def test_what_a_killed_engine_left_of_a_query_is_ours_and_goes(tmp_path: Path) -> None:
    """Spark writes to a folder with folders in it; the one beside it is somebody else's."""
    own = folders(tmp_path, "work")
    with own.held(overwrite=False):
        pass
    left = tmp_path / "work" / "exact" / f".00000000.parquet.gristmill-{'0' * 16}.tmp"
    (left / "_temporary" / "0").mkdir(parents=True)
    for name in ("part-00000.parquet", ".part-00000.parquet.crc", "_temporary/0/part-00001.parquet"):
        (left / name).write_text("half")
    own.look(overwrite=False)
    with own.held(overwrite=False):
        assert not left.exists()
    (tmp_path / "work" / "exact" / "mine.tmp").mkdir(parents=True)
    (tmp_path / "work" / "exact" / "mine.tmp" / "part-00000.parquet").write_text("mine")
    with pytest.raises(ConfigError, match=r"is no part of"):
        own.look(overwrite=False)
