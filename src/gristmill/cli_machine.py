"""The commands that show what this machine can do: bench, warm, demo."""

from __future__ import annotations

import argparse

from gristmill.cli_options import answer, progress_bar
from gristmill.core.kept import keep_in
from gristmill.demo import demo
from gristmill.figures.bench import Asked, measured
from gristmill.recipe import as_recipe
from gristmill.show.reports import show_bench
from gristmill.show.terminal import line
from gristmill.stages.warming import warm
from gristmill.store.opening import open_store


def run_bench(chosen: argparse.Namespace) -> None:
    store = open_store(chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths, chosen.dtype, chosen.eos)
    keys = tuple(key for key in chosen.keys.split(",") if key)
    asked = Asked(chosen.seq_len, chosen.batch_size, chosen.cut, keys)
    rows = measured(store, asked, chosen.seconds)
    answer(chosen, rows, lambda: show_bench(store.describe(), asked, rows))


def run_warm(chosen: argparse.Namespace) -> None:
    if chosen.dir:
        keep_in(chosen.dir)
    recipe = as_recipe(chosen.recipe) if chosen.recipe else None
    with progress_bar(chosen) as bar:
        made = warm(recipe, bar)
    said = f"{len(made)} kernels were compiled." if made else "Nothing was left to compile."
    answer(chosen, {"compiled": made}, lambda: line(said))


def run_demo(chosen: argparse.Namespace) -> None:
    demo(chosen.out, chosen.json)
