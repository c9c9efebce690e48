"""What can be known to fail fails before a byte is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import ConfigError
from gristmill.recipe import as_recipe
from gristmill.stages.readiness import check_ready


def ready(tmp_path: Path, save_index: str | None = None, **options: Any) -> None:
    source = {"name": "web", "paths": [str(tmp_path / "in.txt")]}
    check_ready(
        as_recipe({"out": str(tmp_path / "out"), "sources": [source], "tokenizer": "byte", **options}), save_index
    )


def test_a_recipe_that_can_run_is_ready(tmp_path: Path) -> None:
    ready(tmp_path, filters=["length"], dedup=["exact", "near"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [
    {"decontaminate": {"paths": ["/nowhere/eval.jsonl"]}}, {"dedup": [{"near": {"index": "/nowhere"}}]},
    {"filters": [{"function": {"path": "no.such.module:function"}}]},
])  # fmt: skip
def test_files_indexes_and_functions_that_are_not_there_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"nowhere|no\.such\.module|no such"):
        ready(tmp_path, **options)


def test_an_index_needs_near_dedup_and_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save_index needs near dedup"):
        ready(tmp_path, save_index=str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds an index already"):
        ready(tmp_path, save_index=str(tmp_path / "index"), dedup=["near"])
