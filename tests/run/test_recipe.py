"""Recipes from YAML: what they may say, and how a mistake in one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.recipe import read_recipe

GOOD = """\
out: {out}
seed: 3
sources:
  - {{name: web, paths: ["{raw}/*.jsonl"], text: body, id: uid}}
  - {{name: books, paths: {raw}/books}}
tokenizer: byte
store: {{tokens_per_shard: 100, val_fraction: 0}}
on_error: skip
"""


def recipe(folder: Path, text: str) -> Path:
    (folder / "recipe.yaml").write_text(text)
    return folder / "recipe.yaml"


def test_a_recipe_prepares_a_store(tmp_path: Path) -> None:
    (tmp_path / "raw" / "books").mkdir(parents=True)
    (tmp_path / "raw" / "a.jsonl").write_text('{"body": "from the web", "uid": "w1"}\n')
    (tmp_path / "raw" / "books" / "b.txt").write_text("from a book")
    gm.prepare(recipe(tmp_path, GOOD.format(out=tmp_path / "out", raw=tmp_path / "raw")))
    store = gm.open(tmp_path / "out")
    assert [(store.document(i).id, store.document(i).text) for i in range(2)] == [
        ("w1", "from the web"),
        ("books/b.txt", "from a book"),
    ]


SMALL = "out: a\nsources: [{name: a, paths: b}]\n"
MISTAKES = {
    "a key twice": (SMALL + "seed: 1\nseed: 2\n", "the key 'seed' is there twice.*line 4"),
    "a key of a source twice": ("out: a\nsources: [{name: a, paths: b, name: c}]\n", "the key 'name' is there twice"),
    "a day that is none": ("out: 2001-99-99\n", "is not YAML that can be used: month must be in 1..12"),
    "anchors without end": ("out: &a [*a]\nsources: *a\n", "unfolds to more than"),
    "brackets without end": ("out: " + "[" * 5_000, "is not YAML"),
    "a number of 5,000 digits": ("out: " + "9" * 5_000, "is not YAML"),
    "no text at all": ('out: "a\\0b"\n', "no name or text can have"),
    "a source without paths": ("out: a\nsources: [{name: a}]\n", "One of the recipe's sources lacks 'paths'"),
    "a source's name as a number": ("out: a\nsources: [{name: 1, paths: b}]\n", "name must be text, not 1"),
    "a tokenizer as a number": (SMALL + "tokenizer: 1\n", "tokenizer cannot be 1: it is text"),
    "an output that is nothing": ("out:\nsources: [{name: a, paths: b}]\n", "out must name the folder"),
    "dedup by true": (SMALL + "dedup: [true]\n", "An entry of dedup is one rule.* not True"),
    "dedup by a list": (SMALL + "dedup: [[null]]\n", "An entry of dedup is one rule"),
    "a filter as a list": (SMALL + "filters: [[null]]\n", "An entry of filters is one rule"),
    "more permutations than end": (
        SMALL + "dedup: [near: {permutations: 2147483648}]\n",
        "permutations cannot be 2147483648: it is a whole number from 1 to 16,384",
    ),
    "a threshold as text": (SMALL + "dedup: [near: {threshold: high}]\n", "threshold cannot be 'high': it is a number"),
    "a threshold that is no number": (SMALL + "dedup: [near: {threshold: .nan}]\n", "threshold cannot be nan"),
    "weights that are no numbers": (SMALL + "mix: {weights: {a: .inf}, target: 3}\n", "numbers of 0 or more"),
    "an encoding that is none": (
        "out: a\nsources: [{name: a, paths: b, encoding: undefined}]\n",
        "encoding 'undefined' is not one that Python knows",
    ),
    "no mapping": ("- a\n- b\n", "must be a mapping"),
    "no YAML": ("out: [a\n", "is not YAML"),
    "unknown key": ("out: a\nsources: [{name: a, paths: [b]}]\ntokenzier: byte\n", "did you mean 'tokenizer'"),
    "unknown key of a source": ("out: a\nsources: [{name: a, pathes: [b]}]\n", "did you mean 'paths'"),
    "unknown key of the store": ("out: a\nsources: [{name: a, paths: b}]\nstore: {tokens: 1}\n", "'tokens'"),
    "no out": ("sources: [{name: a, paths: [b]}]\n", "lacks 'out'"),
    "no sources": ("out: a\n", "lacks 'sources'"),
    "sources as text": ("out: a\nsources: raw\n", "needs sources: a list"),
    "a source as text": ("out: a\nsources: [raw]\n", "must be a mapping"),
    "no paths": ("out: a\nsources: [{name: a, paths: []}]\n", "needs paths"),
    "a number as path": ("out: a\nsources: [{name: a, paths: [1]}]\n", "needs paths"),
    "a name twice": ("out: a\nsources: [{name: a, paths: b}, {name: a, paths: c}]\n", "the same name"),
    "text as fraction": ("out: a\nsources: [{name: a, paths: b}]\nstore: {val_fraction: x}\n", "val_fraction"),
    "fraction of 1": ("out: a\nsources: [{name: a, paths: b}]\nstore: {val_fraction: 1}\n", "val_fraction"),
    "no tokens a shard": ("out: a\nsources: [{name: a, paths: b}]\nstore: {tokens_per_shard: 0}\n", "tokens_per_shard"),
    "store as text": ("out: a\nsources: [{name: a, paths: b}]\nstore: big\n", "must be a mapping"),
    "seed as text": ("out: a\nsources: [{name: a, paths: b}]\nseed: x\n", "seed"),
    "unknown on_error": ("out: a\nsources: [{name: a, paths: b}]\non_error: ignore\n", "'raise' or 'skip'"),
    "an unknown filter": ("out: a\nsources: [{name: a, paths: b}]\nfilters: [finweb: {}]\n", "did you mean 'fineweb'"),
    "an unknown option of a filter": (
        "out: a\nsources: [{name: a, paths: b}]\nfilters: [length: {min_char: 3}]\n",
        "did you mean 'min_chars'",
    ),
    "an unknown dedup": ("out: a\nsources: [{name: a, paths: b}]\ndedup: [nearly: {}]\n", "did you mean 'near'"),
    "filters as a mapping": ("out: a\nsources: [{name: a, paths: b}]\nfilters: {length: {}}\n", "filters is a list"),
    "weights of a mix that do not add up": (
        "out: a\nsources: [{name: a, paths: b}]\nmix: {weights: {a: 0.5}, target: 10}\n",
        "sum to 1, not 0.5",
    ),
    "a mix of an unknown source": (
        "out: a\nsources: [{name: wiki, paths: b}]\nmix: {weights: {wikki: 1}, target: 10}\n",
        "did you mean 'wiki'",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, case: str) -> None:
    text, message = MISTAKES[case]
    with pytest.raises(gm.ConfigError, match=message):
        read_recipe(recipe(tmp_path, text))


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"none.yaml cannot be read"):
        gm.prepare(tmp_path / "none.yaml")


def test_a_rule_that_is_left_empty_asks_for_nothing(tmp_path: Path) -> None:
    made = read_recipe(recipe(tmp_path, "out: a\nsources: [{name: a, paths: b}]\nfilters: []\nclean:\n"))
    assert made.sources[0].paths == ("b",)
