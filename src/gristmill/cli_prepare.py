"""The commands that recipes are for: prepare, init, stream; and train-tokenizer."""

from __future__ import annotations

import argparse
import dataclasses
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.cli_options import answer, option_name, progress_bar
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.extras import do_without
from gristmill.core.options import from_mapping
from gristmill.core.values import parse_json
from gristmill.figures.store import store_figures
from gristmill.indexing import index
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_target, place_at
from gristmill.recipe import Recipe, as_recipe, read_recipe
from gristmill.run import RunOptions, dry_run, prepare
from gristmill.show.plan import show_places
from gristmill.show.reports import show_forecast, show_trained
from gristmill.show.store import show_made
from gristmill.show.terminal import line
from gristmill.stages.warming import warm
from gristmill.store.opening import open_split
from gristmill.training import train_tokenizer

if TYPE_CHECKING:
    from gristmill.streams.stream import Batches

_DEDUPS = ("exact", "lines", "near")
_SAMPLE = 1000
# Batches of a stream that are looked at.
_STEPS = 10


def run_prepare(chosen: argparse.Namespace) -> None:
    chosen.inputs = [*chosen.inputs, *chosen.input_files]
    recipe = _read_recipe(chosen) if chosen.recipe else _make_recipe(chosen)
    if chosen.dry_run or chosen.sample is not None:
        _look_ahead(recipe, chosen)
        return
    options = _run_options(chosen)
    if options.engine == "local" and all(rule.name != "function" for rule in recipe.filters):
        do_without("pandas")  # which Spark needs, and a user's function may
    root = address_of(recipe.out)
    with progress_bar(chosen) as bar:
        prepare(recipe, overwrite=chosen.overwrite, progress=bar, options=options)
        for seq_len in chosen.pack:
            index(open_split(root, "train"), seq_len, progress=bar)
    took, measured = bar.took(), bar.figures  # of the store, without its report
    made = None if chosen.no_report else _report(root)
    figures = store_figures(root)
    answer(chosen, {**figures.to_dict(), **measured}, lambda: show_made(figures, took, made))


def _report(root: Address) -> str | None:
    """The report beside the manifest; the store is whole without it, so nothing that goes wrong with it is an error."""
    from gristmill.report.writing import report, target, write  # which imports Arrow and pygal

    out = target(root)
    try:
        write(report(root)[0], out)
    except Exception as error:
        print(f"note: The store is whole, but its report could not be made ({error}): `gristmill report` tries again.",
              file=sys.stderr)  # fmt: skip
        return None
    return str(out)


def _look_ahead(recipe: Recipe, chosen: argparse.Namespace) -> None:
    """A dry run: what would be done, and what a sample says of it."""
    sample = _SAMPLE if chosen.sample is None else chosen.sample
    with progress_bar(chosen) as bar:
        forecast = dry_run(recipe, sample=sample, progress=bar, options=_run_options(chosen))
    answer(chosen, forecast, lambda: show_forecast(forecast))


def _run_options(chosen: argparse.Namespace) -> RunOptions:
    given = _given(chosen, ("engine", "master", "remote", "workers", "memory", "work", "save_index"))
    return from_mapping(RunOptions, {"keep_dropped": chosen.keep_dropped, **given}, "options")


def _read_recipe(chosen: argparse.Namespace) -> Recipe:
    """The recipe file; it says everything but where to write, which --out may say instead."""
    options = ("inputs", *_RECIPE_OPTIONS, *_STORE_OPTIONS, *_SOURCE_OPTIONS, "fields", "dedup", "no_dedup",
               "no_normalize")  # fmt: skip
    chosen.said_by_recipe = options
    given = [name for name in options if getattr(chosen, name) not in (None, [], False)]
    if given:
        raise ConfigError(f"--recipe says everything: put {option_name(chosen.parser, given[0])} into {chosen.recipe}.")
    recipe = read_recipe(chosen.recipe)
    return dataclasses.replace(recipe, out=chosen.out) if chosen.out else recipe


def _make_recipe(chosen: argparse.Namespace) -> Recipe:
    if not chosen.inputs or not chosen.out:
        raise ConfigError("prepare needs INPUTs and --out DIR, or --recipe FILE.")
    paths: dict[str, list[str]] = {}
    for given in chosen.inputs:
        name, path = named_input(given)
        paths.setdefault(name, []).append(path)
    fields = _given(chosen, _SOURCE_OPTIONS)
    if chosen.fields:
        fields["fields"] = chosen.fields.split(",")
    return as_recipe({
        "out": chosen.out,
        "sources": [{"name": name, "paths": found, **fields} for name, found in paths.items()],
        "store": _given(chosen, _STORE_OPTIONS),
        **({"clean": None} if chosen.no_normalize else {}),
        **_dedup(chosen),
        **_given(chosen, _RECIPE_OPTIONS),
    })  # fmt: skip


def _dedup(chosen: argparse.Namespace) -> dict[str, object]:
    """The kinds of dedup that the options name; without any the recipe's default."""
    if chosen.no_dedup and chosen.dedup:
        raise ConfigError("--dedup and --no-dedup exclude each other.")
    if chosen.no_dedup:
        return {"dedup": ()}
    kinds = chosen.dedup.split(",") if chosen.dedup else None
    for kind in kinds or ():
        if kind not in _DEDUPS:
            raise ConfigError(f"--dedup {kind!r} is not known{did_you_mean(kind, _DEDUPS)}.")
    return {"dedup": kinds} if kinds else {}


# Options of the command that are keys of the recipe, of its store and of its sources; others keep their defaults.
_RECIPE_OPTIONS = ("seed", "tokenizer", "eos", "on_error", "shuffle")
_STORE_OPTIONS = ("tokens_per_shard", "val_fraction", "compression")
_SOURCE_OPTIONS = ("text", "id", "documents", "encoding")


def _given(chosen: argparse.Namespace, names: Sequence[str]) -> dict[str, object]:
    return {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}


def named_input(given: str) -> tuple[str, str]:
    """(source, path) of NAME=PATH; else a folder is a source by its name, and files and patterns are one, `text`."""
    name, equals, path = given.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name) and not place_at(given).exists():
        return name, path
    folder = Path(given).expanduser()
    return (folder.name if place_at(folder).is_folder() else "") or "text", given


def run_init(chosen: argparse.Namespace) -> None:
    path = as_target("PATH", chosen.path)
    if place_at(path).exists() and not chosen.overwrite:
        raise ConfigError(f"{path} exists: choose another name, or say --overwrite.")
    place_at(path).write(pkgutil.get_data("gristmill", "recipe_template.yaml") or b"")
    then = f"edit its sources, then run `gristmill prepare --recipe {path} --dry-run`"
    answer(chosen, {"path": str(path)}, lambda: line(f"{path} is written: {then}."))


def run_stream(chosen: argparse.Namespace) -> None:
    from gristmill.figures.stream import look  # streams take 0.2 s to import, which `prepare` does without
    from gristmill.show.stream import show_stream
    from gristmill.streaming import as_stream, unheeded

    recipe = read_recipe(chosen.recipe)
    with progress_bar(chosen) as bar:
        warm(recipe, bar)
        rows = getattr(as_stream(recipe, chosen.split, bar), chosen.cut)(chosen.seq_len)
    seed = recipe.seed if chosen.seed is None else chosen.seed
    if chosen.step is not None or chosen.state is not None:
        _trace(rows.batch(chosen.batch_size, seed=seed), chosen)
        return
    found, undone = (
        look(rows.batch(chosen.batch_size, seed=seed, epochs=1), chosen.steps or _STEPS, chosen.examples or 0),
        unheeded(recipe, chosen.split),
    )
    title = f"{chosen.recipe}: {chosen.cut} {chosen.seq_len:,} x {chosen.batch_size:,}, seed {seed}"
    figures = {"recipe": chosen.recipe, **vars(found), "undone": undone}
    answer(chosen, figures, lambda: show_stream(title, chosen.recipe, found, undone))


def _trace(stream: Batches, chosen: argparse.Namespace) -> None:
    """The documents of a step, by default of the one that follows the state."""
    from gristmill.streams.state import as_stream_state

    if chosen.steps is not None or chosen.examples is not None:
        raise ConfigError("--steps and --examples are for the first batches: leave them out, or --step and --state.")
    state = None
    if chosen.state is not None:
        if not place_at(chosen.state).is_file():
            raise ConfigError(f"{chosen.state} is no file: name one that holds the state of a stream as JSON.")
        state = as_stream_state(parse_json(place_at(chosen.state).read(), chosen.state))
    step = chosen.step if state is None or chosen.step is not None else state["step"]
    documents = stream.trace(step, state)
    answer(chosen, documents, lambda: show_places(f"step {step:,}", documents))


def run_train_tokenizer(chosen: argparse.Namespace) -> None:
    with progress_bar(chosen) as bar:
        report = train_tokenizer(
            chosen.inputs, chosen.out, vocab_size=chosen.vocab_size, limit=chosen.limit,
            text=chosen.text or "text", overwrite=chosen.overwrite, progress=bar,
        )  # fmt: skip
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_trained(chosen.out, report, bar.took()))
