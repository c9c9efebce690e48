"""What a recipe cannot mean is refused when it is read; what it names must be there before a byte of input is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.recipe import Recipe
from gristmill.run import RunOptions

SOURCE = {"name": "a", "paths": ["a.txt"]}

# Keys of a recipe, and what the user reads.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no tokens a shard": ({"store": {"tokens_per_shard": 0}}, "tokens_per_shard"),
    "a share of 1": ({"store": {"val_fraction": 1}}, "val_fraction"),
    "a share that is no number": ({"store": {"val_fraction": float("nan")}}, "val_fraction"),
    "an EOS below 0": ({"eos": -1}, "of 0 or more"),
    "a source left out of the mix": (
        {"sources": [SOURCE, {"name": "b", "paths": ["a.txt"]}], "mix": {"weights": {"a": 1.0}, "target": 3}},
        "says nothing of source 'b'",
    ),
    "a mix of nothing": ({"mix": {"weights": {"a": 1.0}, "target": 0}}, "above 0"),
    "no name for the text": ({"sources": [{**SOURCE, "text": ""}]}, "cannot be empty"),
    "no name for a field": ({"sources": [{**SOURCE, "fields": [""]}]}, "cannot be empty"),
    "a length below 0": ({"filters": [{"length": {"min_chars": -1}}]}, "of 0 or more"),
    "lengths crossed": ({"filters": [{"length": {"min_words": 9, "max_words": 3}}]}, "nothing would stay"),
    "words crossed": ({"filters": [{"gopher_quality": {"min_words": 200_000}}]}, "nothing would stay"),
    "a share above 1": ({"filters": [{"gopher_quality": {"max_bullet_ratio": 7}}]}, "from 0 to 1"),
    "a repetition above 1": ({"filters": [{"gopher_repetition": {"dup_line_frac": 1.5}}]}, "from 0 to 1"),
    "grams of no words": ({"filters": [{"gopher_repetition": {"top_n_grams": [[0, 0.2]]}}]}, "top_n_grams"),
    "grams that fall": ({"filters": [{"gopher_repetition": {"dup_n_grams": [[6, 0.1], [5, 0.1]]}}]}, "rising n"),
    "a fineweb ratio below 0": ({"filters": [{"fineweb": {"short_line_ratio": -0.1}}]}, "from 0 to 1"),
    "c4 words below 0": ({"filters": [{"c4": {"min_words": -3}}]}, "of 0 or more"),
    "c4 steps as text": ({"filters": [{"c4": {"skip": "javascript"}}]}, "a list"),
    "paragraphs below 0": ({"filters": [{"c4_paragraph": {"min_chars": -3}}]}, "of 0 or more"),
    "code above 1": ({"filters": [{"code_ratio": {"max": 50}}]}, "from 0 to 1"),
    "code crossed": ({"filters": [{"code_ratio": {"min": 0.9, "max": 0.1}}]}, "nothing would stay"),
    "comments crossed": ({"filters": [{"code_quality": {"min_comments": 0.5, "max_comments": 0.1}}]}, "would stay"),
    "a profanity of 45 %": ({"filters": [{"profanity": {"max_ratio": 45}}]}, "from 0 to 1"),
    "soft words of none": ({"filters": [{"url": {"min_soft_words": 0}}]}, "of 1 or more"),
    "a field that nobody carries": ({"filters": [{"url": {"domains": ["a.com"]}}]}, "no source carries the field"),
    "a score of 65 %": ({"filters": [{"language": {"keep": ["en"], "min_score": 65}}]}, "from 0 to 1"),
    "scores crossed": (
        {"filters": [{"fasttext": {"model": "m", "label": "x", "min_score": 0.9, "max_score": 0.1}}]}, "would stay",
    ),
    "an ngram of 0": ({"decontaminate": {"paths": ["e.jsonl"], "ngram": 0}}, "1 to 1,000"),
    "a threshold above 1": ({"dedup": [{"near": {"threshold": 1.2}}]}, "at most 1"),
    "lines of no length": ({"dedup": [{"lines": {"min_chars": 0}}]}, "min_chars"),
}  # fmt: skip


def recipe(tmp_path: Path, **changes: Any) -> Recipe:
    values = {"out": str(tmp_path / "out"), "sources": [SOURCE], "tokenizer": "byte", **changes}
    return Recipe(**values)


@pytest.mark.parametrize("case", MISTAKES)
def test_a_recipe_out_of_bounds_is_refused_when_it_is_read(tmp_path: Path, case: str) -> None:
    changes, message = MISTAKES[case]
    with pytest.raises(gm.ConfigError, match=message):
        recipe(tmp_path, **changes)


# What is named and is not there: it shows before the input, which does not exist, is looked for.
MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "a list of words": ({"filters": [{"profanity": {"words": "none.txt"}}]}, "none.txt"),
    "a list of domains": (
        {"sources": [{**SOURCE, "fields": ["url"]}], "filters": [{"url": {"domains": "none.txt"}}]}, "none.txt",
    ),
    "a model": ({"filters": [{"fasttext": {"model": "none.bin", "label": "x"}}]}, "none.bin"),
    "a function": ({"filters": [{"function": {"path": "rules.py", "function": "keeep"}}]}, "no function 'keeep'"),
    "a language": ({"filters": [{"language": {"keep": ["qq"]}}]}, "does not know 'qq'"),
    "an index of near duplicates": ({"dedup": [{"near": {"index": "none"}}]}, "none"),
    "evaluations": ({"decontaminate": {"paths": ["none.jsonl"]}}, "none.jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISSING)
def test_what_a_recipe_names_is_looked_for_before_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.py").write_text("def keep(document):\n    return True\n")
    changes, message = MISSING[case]
    for ask in (gm.prepare, gm.dry_run):
        with pytest.raises((gm.ConfigError, gm.SourceError), match=message):
            ask(recipe(tmp_path, **changes))
    assert not (tmp_path / "out").exists()


def test_a_store_that_is_to_be_replaced_survives_a_recipe_that_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A line of text.\n")
    source = {"name": "a", "paths": [str(tmp_path / "a.txt")]}
    gm.prepare(recipe(tmp_path, sources=[source]))
    with pytest.raises(gm.ConfigError, match="near dedup"):
        gm.prepare(
            recipe(tmp_path, sources=[source]), overwrite=True, options=RunOptions(save_index=str(tmp_path / "index"))
        )
    assert gm.open(tmp_path / "out").num_tokens > 0


@pytest.mark.parametrize("sample", [0, -1, 1.5, "many"])
def test_a_sample_has_at_least_one_document(tmp_path: Path, sample: Any) -> None:
    with pytest.raises(gm.ConfigError, match="sample must be a whole number above 0"):
        gm.dry_run(recipe(tmp_path), sample=sample)


@pytest.mark.parametrize("options", [{"memory": 4}, {"memory": "1MB"}, {"workers": 0}, {"workers": 1.5}])
def test_a_run_has_a_worker_and_memory_to_work_with(options: dict[str, Any]) -> None:
    with pytest.raises(gm.ConfigError, match=next(iter(options))):
        RunOptions(**options)
