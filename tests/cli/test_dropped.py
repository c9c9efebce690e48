"""`gristmill dropped`: what is not in a store, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def made(gristmill: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that kept the texts of what it dropped, with a text that would steer a terminal among them."""
    folder = tmp_path_factory.mktemp("dropped")
    texts = [
        "tiny \x1b[31m",
        *(f"A text of some length, number {i}." for i in range(8)),
        "A text of some length, number 3.",
    ]
    rows = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    (folder / "recipe.yaml").write_text(
        "out: out\nsources: [{name: web, paths: a.jsonl}]\nfilters: [{length: {min_chars: 20}}]\ntokenizer: byte\n"
        "clean: none\n"
    )
    ran = gristmill("prepare", "--recipe", "recipe.yaml", "--keep-dropped", cwd=folder)
    assert "Look at what was dropped: gristmill dropped out\n" in ran.out
    return folder / "out"


def test_rules_and_reasons_are_counted_with_an_example_of_each(call: Command, made: Path) -> None:
    shown = call("dropped", made).out
    assert f"{made}: 2 documents were dropped.\n" in shown
    assert "length  too_few_chars          1  50.0%\n" in shown and "exact   duplicate              1  50.0%\n" in shown
    assert r"tiny \x1b[31m" in shown and "d9  web            d4\n" in shown


def test_a_rule_alone_and_as_json(call: Command, made: Path) -> None:
    assert "too_few_chars" not in call("dropped", made / "train", "--rule", "exact").out
    (group,) = call("dropped", made, "--rule", "length", "--json").json["groups"]
    assert (group["reason"], group["documents"], group["sources"]) == ("too_few_chars", 1, {"web": 1})
    assert group["examples"][0]["text"] == "tiny \x1b[31m" and group["examples"][0]["value"] == 10


def test_mistakes_are_named_by_the_commands_options(call: Command, made: Path, tmp_path: Path) -> None:
    assert "by --rule lenght (did you mean 'length'?)" in call("dropped", made, "--rule", "lenght", code=2).said
    assert "--examples must be a whole number of 1 or more" in call("dropped", made, "--examples", "-1", code=2).said
    assert "does not exist" in call("dropped", tmp_path / "none", code=2).said
    assert "holds no dropped.parquet" in call("dropped", tmp_path, code=2).said


def test_what_could_not_be_read_is_told_in_80_columns(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"body": "not here"}\n')
    ran = call("prepare", "a.jsonl", "--out", "out", "--tokenizer", "byte", "--on-error", "skip")
    assert "Look at what was dropped: gristmill dropped out\n" in ran.out
    shown = call("dropped", "out").out
    assert "unreadable  unreadable          1   100%" in shown and "\n    a.jsonl, line 2 has no text under" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_texts_that_were_not_kept_say_how_to_keep_them(call: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("same\nsame\n")
    options = ("--documents", "line", "--tokenizer", "byte", "--val-fraction", 0)
    call("prepare", tmp_path / "a.txt", "--out", tmp_path / "out", *options)
    assert "prepare with --keep-dropped" in call("dropped", tmp_path / "out").out
    assert "0 documents were dropped" in call("dropped", store).out
