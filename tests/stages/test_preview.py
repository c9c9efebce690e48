"""A dry run says what would happen, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.cli import main
from gristmill.recipe import Recipe
from gristmill.run import dry_run, prepare


def made(out: Path, corpus: Path, **options: Any) -> Recipe:
    sources: Any = [{"name": "all", "paths": [str(corpus)]}]
    filters: Any = [{"length": {"min_chars": 100}}, {"fineweb": {}}, {"c4": {}}]
    return Recipe(str(out), sources, filters=filters, tokenizer="byte", **options)


def test_the_estimate_of_a_sample_that_is_everything_is_close(tmp_path: Path, corpus: Path) -> None:
    recipe = made(tmp_path / "out", corpus, dedup=(), store={"val_fraction": 0})
    forecast = dry_run(recipe, sample=10_000)
    assert not (tmp_path / "out").exists()
    manifest = prepare(recipe)
    tokens = sum(entry.tokens for entries in manifest.splits.values() for entry in entries)
    assert forecast["estimate"]["tokens"] == tokens and forecast["range"]["tokens"] == [tokens, tokens]
    assert forecast["steps"] == ["clean", "length", "fineweb", "c4", "tokenize: byte"]
    in_order = {row["rule"]: row["in_order"] for row in forecast["sample"]["rules"]}
    found = {row["stage"]: sum(row["reasons"].values()) for row in manifest.funnel if row["stage"] in in_order}
    assert in_order == found


def test_rules_are_judged_alone_and_together(tmp_path: Path, corpus: Path) -> None:
    rows = {row["rule"]: row for row in dry_run(made(tmp_path / "out", corpus), sample=10_000)["sample"]["rules"]}
    assert rows["fineweb"]["alone"] > rows["fineweb"]["in_order"] > 0  # length drops the same texts before
    for row in rows.values():
        assert row["only"] <= row["in_order"] <= row["alone"] and row["in_order"] == sum(row["reasons"].values())


def test_the_command_prints_the_plan(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path / "out"), "--tokenizer", "byte"]
    assert main(["prepare", str(corpus), *options, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "steps: clean > dedup: exact > tokenize: byte" in said and "estimate" in said
    assert main(["prepare", str(corpus), *options, "--sample", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sample"]["documents"] >= 50
    assert not (tmp_path / "out").exists()


def test_init_writes_a_recipe_that_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gristmill.recipe import read_recipe

    path = tmp_path / "recipe.yaml"
    assert main(["init", str(path)]) == 0
    assert read_recipe(path) == Recipe("data/corpus", [{"name": "web", "paths": ["raw/web/*.jsonl.zst"]}])  # type: ignore[list-item]
    assert main(["init", str(path)]) == 2 and "exists" in capsys.readouterr().err
