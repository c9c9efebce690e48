"""What a recipe says of a DataFrame, and what its arguments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.frames.recipe import frame_recipe, narrow_recipe
from gristmill.recipe import Recipe, SourceOptions


def test_without_a_recipe_a_dataframe_is_one_source_whose_texts_make_its_ids() -> None:
    made = frame_recipe(None, "out", None, None)
    assert (made.source.name, made.source.text, made.id_col) == ("dataframe", "text", None)


def test_the_source_of_a_recipe_names_columns_and_carries_fields() -> None:
    recipe = {"sources": [{"name": "web", "text": "body", "id": "key", "fields": ["url"]}], "tokenizer": "byte"}
    made = frame_recipe(recipe, "out", None, None)
    assert (made.source.name, made.source.text, made.id_col, made.source.fields) == ("web", "body", "key", ("url",))
    assert made.recipe.tokenizer == "byte"


def test_arguments_go_before_the_recipe() -> None:
    made = frame_recipe({"tokenizer": "byte", "out": "there"}, "here", "body", "key", "gpt2")
    assert (made.recipe.tokenizer, made.recipe.out) == ("gpt2", "here")
    assert (made.source.text, made.id_col) == ("body", "key")


def test_a_recipe_that_is_made_serves_with_its_rules_and_its_source() -> None:
    whole = Recipe("a", [SourceOptions("web", ["raw/*.txt"], fields=["url"])], seed=7, tokenizer="byte")
    made = frame_recipe(whole, "b", None, "key")
    assert (made.recipe.out, made.recipe.seed, made.recipe.tokenizer) == ("b", 7, "byte")
    assert (made.source.name, made.source.fields, made.id_col) == ("web", ("url",), "key")


def test_a_file_holds_a_recipe_without_sources(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("tokenizer: byte\nfilters:\n  - length: {min_chars: 3}\n")
    made = frame_recipe(path, "out", None, None)
    assert [rule.name for rule in made.recipe.filters] == ["length"]


@pytest.mark.parametrize("sources", [[{"name": "a"}, {"name": "b"}], ["a"], [{"name": "a", "txt": "body"}]])
def test_sources_that_are_no_dataframe_are_refused(sources: object) -> None:
    with pytest.raises(ConfigError):
        frame_recipe({"sources": sources}, "out", None, None)


def test_rules_that_compare_documents_are_refused_where_each_is_judged_by_itself() -> None:
    with pytest.raises(ConfigError, match=r"exact, near compares.*write_store"):
        narrow_recipe({"dedup": ["exact", "near"]}, None, None)
    with pytest.raises(ConfigError, match="decontaminate"):
        narrow_recipe({"decontaminate": {"paths": ["evals/*.jsonl"]}}, None, None)


def test_a_recipe_that_says_nothing_of_dedup_has_none_there() -> None:
    assert narrow_recipe({"filters": ["gopher_quality"]}, None, None).recipe.dedup == ()
