"""`gm.prepare` as Python calls it: a dict for a recipe, a bar where somebody watches, a short answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.core.progress import Quiet
from gristmill.engine.inline import InlineEngine


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    for i in range(20):
        (tmp_path / f"{i}.txt").write_text(f"Text number {i}. " * 20)
    source = {"name": "web", "paths": str(tmp_path / "*.txt")}
    store = {"val_fraction": 0.3}
    return {"out": str(tmp_path / "store"), "sources": [source], "tokenizer": "byte", "store": store, "dedup": "none"}


def test_a_recipe_is_a_dict_a_path_or_an_object_and_the_bytes_are_the_same(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    import yaml

    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    made = [
        gm.prepare(recipe),
        gm.prepare(str(tmp_path / "recipe.yaml"), overwrite=True),
        gm.prepare(gm.Recipe(**{**recipe, "dedup": ()}), overwrite=True),
    ]
    assert len({manifest.fingerprint for manifest in made}) == 1
    assert gm.dry_run(recipe)["sources"][0]["files"] == 20


def test_a_dict_is_checked_as_a_file_is(recipe: dict[str, Any]) -> None:
    with pytest.raises(gm.ConfigError, match=r"The recipe lacks 'out'\."):
        gm.prepare({key: value for key, value in recipe.items() if key != "out"})
    with pytest.raises(gm.ConfigError, match=r"'tokeniser' in the recipe \(did you mean 'tokenizer'"):
        gm.prepare({**recipe, "tokeniser": "byte"})
    with pytest.raises(gm.ConfigError, match=r"'worker' in options \(did you mean 'workers'"):
        gm.prepare(recipe, options={"worker": 2})


def test_options_may_be_a_dict(recipe: dict[str, Any], tmp_path: Path) -> None:
    gm.prepare(recipe, options={"work": str(tmp_path / "work"), "workers": 1})
    assert any((tmp_path / "work").iterdir())


def test_without_a_terminal_there_are_notes_but_no_bar(
    recipe: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    (Path(recipe["sources"][0]["paths"]).parent / "bad.txt").write_bytes(b"caf\xe9")
    recipe["on_error"] = "skip"
    gm.prepare(recipe)
    out, said = capfd.readouterr()
    assert not out and "1 documents could not be read" in said
    assert all(line.startswith("note: ") for line in said.splitlines() if not line.startswith(" "))
    gm.prepare(recipe, overwrite=True, progress=False)
    assert capfd.readouterr() == ("", "")


def test_in_a_terminal_there_is_a_bar(
    recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    gm.prepare(recipe)
    assert "\x1b[" in capfd.readouterr().err


def test_progress_may_be_an_object_of_ones_own(recipe: dict[str, Any]) -> None:
    class Heard(Quiet):
        done = 0

        def advance(self, amount: int) -> None:
            self.done += amount

    heard = Heard()
    gm.prepare(recipe, progress=heard)
    assert heard.done > 0
    with pytest.raises(gm.ConfigError, match=r"progress must be True, False"):
        gm.prepare(recipe, overwrite=True, progress="yes")  # type: ignore[arg-type]


def test_what_comes_back_is_short_to_print(recipe: dict[str, Any]) -> None:
    manifest = gm.prepare(recipe)
    shown = repr(manifest)
    assert re.fullmatch(
        r"Manifest\(train [\d,]+ tokens in \d+ documents; val [\d,]+ tokens in \d+ documents; byte, uint16\)", shown
    )
    assert shown in manifest._repr_html_() and "<td>train</td>" in manifest._repr_html_()


def test_an_engine_is_chosen_by_name_or_handed_in_and_the_bytes_are_the_same(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    class Own(InlineEngine):
        closed = False

        def close(self) -> None:
            self.closed = True

    own = Own(1 << 28, tmp_path / "scratch")
    made = [gm.prepare(recipe, options={"engine": "local"}), gm.prepare(recipe, overwrite=True, engine=own)]
    assert made[0].fingerprint == made[1].fingerprint and not own.closed
    with pytest.raises(gm.ConfigError, match=r"engine 'locale' is not known \(did you mean 'local'"):
        gm.prepare(recipe, engine="locale")
    with pytest.raises(gm.ConfigError, match=r"engine 'sparks' is not known"):
        gm.RunOptions(engine="sparks")
