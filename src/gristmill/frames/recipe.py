"""The recipe of a DataFrame: it is the one source, and what it is called and carries may be said as of any source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from gristmill.core.arguments import PathLike, as_text, refuse
from gristmill.core.errors import ConfigError
from gristmill.core.options import from_mapping
from gristmill.places.door import as_target
from gristmill.recipe import Recipe, SourceOptions, recipe_from, recipe_values

SOURCE = "dataframe"
# The folder of the work folder that rows are written to.
ROWS = "rows"
GivenRecipe = Recipe | Mapping[str, object] | PathLike | None


@dataclass(frozen=True)
class FrameRecipe:
    """A recipe whose only source is a DataFrame; `id_col` is the column that its ids are in, if one was named."""

    recipe: Recipe
    id_col: str | None

    @property
    def source(self) -> SourceOptions:
        """The DataFrame as a source."""
        return self.recipe.sources[0]


def frame_recipe(
    given: GivenRecipe, out: PathLike, text_col: str | None, id_col: str | None, tokenizer: str | None = None
) -> FrameRecipe:
    """The recipe that was given, for a DataFrame: what the arguments say goes before what it says of the same."""
    values = _values(given)
    said = {**_source(values.get("sources")), **_named_columns(text=text_col, id=id_col)}
    source = from_mapping(SourceOptions, {**said, "paths": [ROWS], "format": "parquet"}, "the recipe's source")
    place = os.fspath(as_target("out", out))
    if isinstance(given, Recipe):
        made = replace(
            given, out=place, sources=(source,), tokenizer=given.tokenizer if tokenizer is None else tokenizer
        )
    else:
        named = {} if tokenizer is None else {"tokenizer": tokenizer}
        made = recipe_from({**values, **named, "out": place, "sources": [source]}, "the recipe")
    return FrameRecipe(made, source.id if "id" in said else None)


def _named_columns(**columns: str | None) -> dict[str, object]:
    """Those that were named."""
    return {key: as_text(f"{key}_col", name, "the name of a column") for key, name in columns.items()
            if name is not None}  # fmt: skip


def narrow_recipe(given: GivenRecipe, text_col: str | None, id_col: str | None) -> FrameRecipe:
    """A recipe whose rules judge each document by itself; any other is refused."""
    if not isinstance(given, Recipe):
        given = {"dedup": None, **_values(given)}
    made = frame_recipe(given, "nowhere", text_col, id_col)
    wide = [rule.name for rule in made.recipe.dedup] + (["decontaminate"] if made.recipe.decontaminate else [])
    if wide:
        raise ConfigError(
            f"curate judges each document by itself, and {', '.join(wide)} compares it with others: leave it out of "
            "the recipe (dedup: none), or make a store by write_store, which does all of it.",
            arguments="recipe",
        )
    return made


def _values(given: GivenRecipe) -> dict[str, object]:
    """The keys of a recipe, as YAML has them; of a made one only its source is looked at."""
    if isinstance(given, Recipe):
        return {"sources": [_said(source) for source in given.sources]}
    return {} if given is None else recipe_values(given)


def _said(source: SourceOptions) -> dict[str, object]:
    """What somebody said of a source: all that is not as it would be anyway."""
    return {field.name: value for field in fields(source) if (value := getattr(source, field.name)) != field.default}


def _source(sources: object) -> dict[str, object]:
    """The one source of a recipe, without its paths; one of our own where the recipe has none."""
    listed = sources if isinstance(sources, list | tuple) else [] if sources is None else [sources]
    if len(listed) > 1:
        raise ConfigError(
            f"A DataFrame is one source, and the recipe has {len(listed)}: leave one, or none.", arguments="recipe"
        )
    given = listed[0] if listed else {}
    if not isinstance(given, Mapping):
        raise refuse("sources", "a list of one {name: ...}", given)
    return {"name": SOURCE, **given}
