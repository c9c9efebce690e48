"""`gristmill prepare`: inputs to sources, options to a recipe, and what is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

Command = Callable[..., Any]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    for name in ("a", "b"):
        (tmp_path / "raw" / f"{name}.txt").write_text(f"text {name}")
    return tmp_path / "raw"


def sources(root: Path) -> list[tuple[str, str]]:
    store = gm.open(root)
    return [(store.document(i).source, store.document(i).id) for i in range(store.num_documents)]


def test_it_prints_the_figures_and_how_to_open_the_store(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0)
    assert "byte tokens, uint16, EOS 256" in ran.out and "funnel" in ran.out
    assert f'gristmill.open("{tmp_path}/out/train")' in ran.out
    assert "note: The split 'val' is empty: val_fraction is 0.0 of 2 documents." in ran.said


def test_json_is_all_that_is_on_stdout(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0, "--json")
    assert ran.json["splits"]["train"]["documents"] == 2 and ran.json["recipe"]["store"]["val_fraction"] == 0


def test_the_default_tokenizer_is_gpt2(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--no-dedup", "--no-normalize", "--json")
    assert ran.json["tokenizer"]["name"] == "gpt2" and ran.json["eos"] == 50256
    assert "rules" not in ran.said


def test_inputs_name_their_sources(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--pack", 8, "--no-dedup")
    gristmill("prepare", "books=raw/a.txt", "raw", "raw/b.txt", "--out", "out", *options, cwd=tmp_path)
    expected = [("books", "books/a.txt"), ("raw", "raw/a.txt"), ("raw", "raw/b.txt"), ("text", "text/b.txt")]
    assert sources(tmp_path / "out") == expected
    assert (tmp_path / "out" / "train" / "pack-8.gmi").exists()


def test_a_pattern_and_the_files_that_a_shell_makes_of_it_are_the_same_store(
    gristmill: Command, raw: Path, tmp_path: Path
) -> None:
    options = ("--tokenizer", "byte", "--val-fraction", 0)
    gristmill("prepare", raw / "*.txt", "--out", tmp_path / "one", *options)
    gristmill("prepare", raw / "a.txt", raw / "b.txt", "--out", tmp_path / "two", *options)
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()
    assert sources(tmp_path / "one") == [("text", "text/a.txt"), ("text", "text/b.txt")]


def test_options_reach_the_store(gristmill: Command, tmp_path: Path) -> None:
    lines = ['{"body": "one", "uid": 1}', "broken", *(f'{{"body": "text {i}", "uid": {i}}}' for i in range(2, 40))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    options = "--tokenizer byte --tokens-per-shard 50 --val-fraction 0.3 --seed 7 --text-field body --id-field uid"
    arguments = (*options.split(), "--on-error", "skip", "--json")
    ran = gristmill("prepare", tmp_path / "a.jsonl", "--out", tmp_path / "out", *arguments)
    assert ran.json["splits"]["train"]["shards"] > 3 and ran.json["splits"]["val"]["documents"] > 3
    assert ran.json["recipe"]["seed"] == 7 and "1 documents could not be read" in ran.said
    assert {"stage": "unreadable", "source": "text", "documents": 1} in ran.json["funnel"]


def test_a_recipe_says_everything_but_may_be_sent_elsewhere(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"out: {tmp_path}/first\nsources: [{{name: web, paths: {raw}}}]\ntokenizer: byte\n")
    gristmill("prepare", "--recipe", recipe)
    gristmill("prepare", "--recipe", recipe, "--out", tmp_path / "second")
    assert sources(tmp_path / "first") == sources(tmp_path / "second") != []
    ran = gristmill("prepare", "--recipe", recipe, "--val-fraction", "0.1", code=2)
    assert "put --val-fraction into" in ran.said


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no input": (["--out", "o"], "needs INPUTs and --out"),
    "no output": (["raw"], "needs INPUTs and --out"),
    "a missing file": (["none.txt", "--out", "o"], "'none.txt' (source 'text') names no file"),
    "a missing tokenizer file": (["raw", "--out", "o", "--tokenizer", "./tokenizer.json"], "no such file"),
    "an unknown tokenizer": (["raw", "--out", "o", "--tokenizer", "gpt-2"], "did you mean 'gpt2'"),
    "a fraction above 1": (["raw", "--out", "o", "--val-fraction", "2"], "val_fraction"),
    "shards of nothing": (["raw", "--out", "o", "--tokens-per-shard", "0"], "tokens_per_shard"),
    "text for a number": (["raw", "--out", "o", "--tokens-per-shard", "many"], "invalid int value"),
    "a file as output": (["raw", "--out", "raw/a.txt", "--tokenizer", "byte"], "is a file"),
    "invalid UTF-8": (["bad.txt", "--out", "o", "--tokenizer", "byte"], "bad.txt is not UTF-8: byte 1"),
    "a broken line": (["bad.jsonl", "--out", "o", "--tokenizer", "byte"], "bad.jsonl, line 2 is not JSON"),
    "no text": (["empty.txt", "--out", "o", "--tokenizer", "byte"], "hold no text"),
    "a missing recipe": (["--recipe", "none.yaml"], "none.yaml cannot be read"),
    "a misspelt option": (["raw", "--out", "o", "--tokens-per-shrad", "5"], "did you mean '--tokens-per-shard'?"),
    "a shortened option": (["raw", "--out", "o", "--over"], "has no option --over"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_2(
    call: Command, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"a\xff")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "empty.txt").touch()
    arguments, message = MISTAKES[case]
    ran = call("prepare", *arguments, code=2)
    assert message in ran.said and not ran.out and not (tmp_path / "o" / "manifest.json").exists()


def test_a_finished_store_is_refused(gristmill: Command, raw: Path, copied: Path) -> None:
    assert "--overwrite" in gristmill("prepare", raw, "--out", copied, "--tokenizer", "byte", code=2).said
    gristmill("prepare", raw, "--out", copied, "--tokenizer", "byte", "--overwrite")
    assert gm.open(copied).num_documents == 2
