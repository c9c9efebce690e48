"""What can be known to fail before a byte is read fails here: files, models, indexes and functions that a recipe names.

Bounds of options are checked where the options are made, and libraries that are not installed there too.
"""

from __future__ import annotations

from gristmill.core.errors import ConfigError
from gristmill.curate.dedup.index import INDEX, open_index
from gristmill.curate.dedup.near import Near
from gristmill.places.door import address_of, place_at
from gristmill.places.folders import read_claim
from gristmill.recipe import Recipe
from gristmill.stages.evaluations import Evaluations


def check_ready(recipe: Recipe, save_index: str | None) -> None:
    """Refuse a recipe that would fail on its way."""
    _ = recipe.content  # reads the lists that rules name
    for rule in recipe.filters:
        getattr(rule, "check", lambda: None)()
    if recipe.decontaminate:
        _ = Evaluations.of(recipe.decontaminate).content
    near = [rule for rule in recipe.dedup if isinstance(rule, Near)]
    for dedup in near:
        open_index(dedup)
    if save_index and not near:
        raise ConfigError("save_index needs near dedup: its signatures are the index.", arguments="save_index")
    if save_index and place_at(address_of(save_index) / INDEX).exists() and read_claim(address_of(save_index)) is None:
        raise ConfigError(f"{save_index} holds an index already: choose a new folder.")
