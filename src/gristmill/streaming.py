"""A recipe as a stream: the same documents through the same cleaning and rules to the same tokens, and nothing written.

stream = gm.stream_recipe("recipe.yaml").pack(2048).batch(64, seed=0)
gm.prepare("recipe.yaml")    # the store of the same documents
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from gristmill.core.arguments import PathLike, as_choice
from gristmill.core.progress import Progress, Shown, shown
from gristmill.places.storage import use
from gristmill.recipe import Recipe, StoreOptions, as_recipe
from gristmill.stages.evaluations import curation_of
from gristmill.stages.readiness import check_ready
from gristmill.store.manifest import SPLITS
from gristmill.streams.steps import Clean, Filter, Step
from gristmill.streams.stream import Stream
from gristmill.streams.units import SourceFiles


def stream_recipe(
    recipe: Recipe | Mapping[str, object] | PathLike, *, split: str | None = None, progress: Shown = None
) -> Stream:
    """The documents of all sources of a recipe, cleaned, filtered and tokenised as `prepare` does it.

    split: "train" or "val", the documents of one of them by the recipe's `val_fraction` and seed; all without. What a
    stream cannot do (dedup, a mix, a shuffled store) is named in a warning. `progress` is shown while the evaluations
    that the recipe decontaminates against are indexed.
    """
    made = as_recipe(recipe)
    if split is not None:
        as_choice("split", split, SPLITS)
    if said := unheeded(made, split):
        listed = " ".join(f"{key}: {why}." for key, why in said.items())
        warnings.warn(f"A stream leaves some of this recipe undone. {listed}", stacklevel=2)
    with shown(progress) as told:
        return as_stream(made, split, told)


def as_stream(recipe: Recipe, split: str | None, progress: Progress) -> Stream:
    """The stream of a recipe, or of one of its splits; `unheeded` is left undone."""
    use(recipe.storage)
    check_ready(recipe, None)
    curation = curation_of(recipe, _kept(), progress)
    sources = [SourceFiles(tuple(each.paths), each.layout, each.name, recipe.out) for each in recipe.sources]
    steps: list[Step] = [Clean(curation.clean)] if curation.clean else []
    steps += map(Filter, curation.rules)
    made = Stream(tuple(sources), on_error=recipe.on_error, steps=tuple(steps))
    if split == "val" or (split and recipe.store.val_fraction):
        made = made.split(recipe.store.val_fraction, seed=recipe.seed)[SPLITS.index(split)]
    return made.tokenize(recipe.tokenizer, eos=recipe.eos)


def _kept() -> Path:
    """Where the index of evaluations lies, under the name of its content: for all ranks, and for later runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gristmill" / "streams"


def unheeded(recipe: Recipe, split: str | None) -> dict[str, str]:
    """The keys of a recipe that a stream leaves undone, each with what that means for its documents."""
    return dict(_unheeded(recipe, split))


def _unheeded(recipe: Recipe, split: str | None) -> Iterator[tuple[str, str]]:
    if recipe.dedup:
        rules = ", ".join(rule.name for rule in recipe.dedup)
        yield "dedup", f"duplicates ({rules}) stay, since a stream sees one document at a time"
    if recipe.mix:
        yield "mix", "sources give all of their documents; to weigh them, make a stream of each and use gm.mix"
    if recipe.shuffle:
        yield "shuffle", "the order is that of the seed given to batch()"
    if recipe.store.val_fraction and not split:
        yield "store.val_fraction", f"nothing is held out: the {recipe.store.val_fraction:.2%} for val are served too"
    plain = StoreOptions()
    for name in (field.name for field in fields(plain) if field.name != "val_fraction"):
        if getattr(recipe.store, name) != getattr(plain, name):
            yield f"store.{name}", "nothing is written"
