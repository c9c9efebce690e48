"""The commands that make stores: prepare, init, train-tokenizer."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.cli_options import Commands, answer, command, number, option_name, progress_bar
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.values import Count, Positive, Seed, Share
from gristmill.places.door import place_at

if TYPE_CHECKING:
    from gristmill.recipe import Recipe
    from gristmill.run import RunOptions

_DEDUPS = ("exact", "lines", "near")
_SAMPLE = 1000


def add_prepare(commands: Commands) -> None:
    """`gristmill prepare`"""
    parser = command(
        commands, "prepare", _run_prepare,
        "Make a store of raw text: read, clean, drop duplicates, tokenise, split into train and val. A run that was "
        "cut short goes on where it was when the same command is given again.",
        "my.txt --out data/mine",
        "web=raw/web 'code=raw/*.jsonl.zst' --out data/corpus",
        "--recipe recipe.yaml --dry-run",
        "--recipe recipe.yaml",
    )  # fmt: skip
    parser.usage = (
        "gristmill prepare INPUT... --out DIR [OPTION...]\n       gristmill prepare --recipe FILE [OPTION...]"
    )
    _add_inputs(parser)
    _add_recipe_options(parser.add_argument_group("what decides the bytes of the store"))
    _add_source_options(parser.add_argument_group("how documents are found in the inputs"))
    _add_run_options(parser.add_argument_group("how it runs; the store is the same"))


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="A text, JSONL, Parquet, Arrow or tar file, plain or compressed; a folder of such; or a pattern in "
        "quotes. NAME=INPUT names its source; else a folder is a source by its own name, and all files are the "
        "source 'text'.",
    )
    parser.add_argument(
        "--input-files", nargs="+", action="extend", default=[], metavar="INPUT", help="Inputs, given as an option."
    )
    parser.add_argument("--out", "--out-dir", metavar="DIR", help="The folder of the new store.")
    parser.add_argument(
        "--recipe", metavar="FILE", help="A YAML file that says all that decides the store's bytes; `gristmill init` "
        "writes one to begin with."
    )  # fmt: skip


def _add_recipe_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--tokenizer", "--tokenization", metavar="NAME",
        help="One of byte, gpt2, a tiktoken name, a tokenizer.json or a hub name; gpt2 by default.",
    )  # fmt: skip
    parser.add_argument(
        "--eos", type=number(Count), metavar="ID", help="The EOS id, where the tokenizer does not tell it."
    )
    parser.add_argument(
        "--tokens-per-shard", type=number(Positive), metavar="N", help="A shard holds this many at most; 100,000,000."
    )
    parser.add_argument(
        "--val-fraction", type=number(Share), metavar="X", help="Hold this share out as val; 0.005 by default."
    )
    parser.add_argument("--compression", choices=("none", "zstd"), help="Compress the tokens, or not (the default).")
    parser.add_argument(
        "--seed", type=number(Seed), metavar="N", help="It decides the split into train and val, and --shuffle."
    )
    parser.add_argument("--shuffle", action="store_const", const=True, help="Shuffle the documents of the store.")
    parser.add_argument("--no-normalize", action="store_true", help="Keep the text as it is.")
    parser.add_argument(
        "--dedup", metavar="K,K", help="Drop duplicates: exact (the default), lines, near; in this order."
    )
    parser.add_argument("--no-dedup", action="store_true", help="Keep duplicates.")


def _add_source_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--text-field", dest="text", metavar="KEY", help="The text stands under this key or column; `text` by default."
    )
    parser.add_argument(
        "--id-field",
        dest="id",
        metavar="KEY",
        help="The id stands under this one; `id` by default, else the document's place names it.",
    )
    parser.add_argument("--fields", metavar="K,K", help="Carry these keys or columns into the documents' table.")
    parser.add_argument(
        "--documents",
        choices=("file", "line", "paragraph"),
        help="In plain text a document is a file (the default), a line or a paragraph.",
    )
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help="Text and JSONL are written in this one: latin-1, cp1252, utf-16, ...; utf-8 by default.",
    )
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), help="Stop at unreadable input (the default), or count and report it."
    )


def _add_run_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--engine", metavar="NAME", help="Work there: local, which is this machine, by default.")
    parser.add_argument(
        "--workers", type=number(Positive), metavar="N", help="Work in so many processes; as many as cores by default."
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="Use so much for the whole run, and spill the rest to disk; 4GB by default."
    )
    parser.add_argument("--work", metavar="DIR", help="Keep unfinished work here, and use it again in later runs.")
    parser.add_argument(
        "--save-index", metavar="DIR", help="Keep what later runs need to find near duplicates of this store."
    )
    parser.add_argument(
        "--keep-dropped", action="store_true", help="Keep the texts of dropped documents, for `gristmill dropped`."
    )
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and an estimate, and write nothing.")
    parser.add_argument(
        "--sample",
        type=number(Positive),
        metavar="N",
        help="Judge N documents by each rule, alone and together; write nothing.",
    )
    parser.add_argument(
        "--pack",
        type=number(Positive),
        action="append",
        default=[],
        metavar="SEQ_LEN",
        help="Build a pack index too; may be given several times.",
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")


def _run_prepare(chosen: argparse.Namespace) -> None:
    from gristmill.figures.store import store_figures
    from gristmill.indexing import index
    from gristmill.run import prepare
    from gristmill.show.store import show_made
    from gristmill.store.opening import open_split

    chosen.inputs = [*chosen.inputs, *chosen.input_files]
    recipe = _read_recipe(chosen) if chosen.recipe else _make_recipe(chosen)
    if chosen.dry_run or chosen.sample is not None:
        _look_ahead(recipe, chosen)
        return
    root = Path(recipe.out)
    with progress_bar(chosen) as bar:
        prepare(recipe, overwrite=chosen.overwrite, progress=bar, options=_run_options(chosen))
        for seq_len in chosen.pack:
            index(open_split(root, "train"), seq_len, progress=bar)
    figures = store_figures(root)
    answer(chosen, {**figures.to_dict(), **bar.figures}, lambda: show_made(figures, bar.took()))


def _look_ahead(recipe: Recipe, chosen: argparse.Namespace) -> None:
    """A dry run: what would be done, and what a sample says of it."""
    from gristmill.run import dry_run
    from gristmill.show.forecast import show_forecast

    with progress_bar(chosen) as bar:
        forecast = dry_run(
            recipe,
            sample=_SAMPLE if chosen.sample is None else chosen.sample,
            progress=bar,
            options=_run_options(chosen),
        )
    answer(chosen, forecast, lambda: show_forecast(forecast))


def _run_options(chosen: argparse.Namespace) -> RunOptions:
    from gristmill.run import RunOptions

    names = ("engine", "workers", "memory", "work", "save_index")
    given = {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}
    return RunOptions(keep_dropped=chosen.keep_dropped, **given)


def _read_recipe(chosen: argparse.Namespace) -> Recipe:
    """The recipe file; it says everything but where to write, which --out may say instead."""
    from gristmill.recipe import read_recipe

    options = ("inputs", *_RECIPE_OPTIONS, *_STORE_OPTIONS, *_SOURCE_OPTIONS, "fields", "dedup", "no_dedup",
               "no_normalize")  # fmt: skip
    chosen.said_by_recipe = options
    given = [name for name in options if getattr(chosen, name) not in (None, [], False)]
    if given:
        raise ConfigError(f"--recipe says everything: put {option_name(chosen.parser, given[0])} into {chosen.recipe}.")
    recipe = read_recipe(chosen.recipe)
    return dataclasses.replace(recipe, out=chosen.out) if chosen.out else recipe


def _make_recipe(chosen: argparse.Namespace) -> Recipe:
    from gristmill.recipe import as_recipe

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


# Options of the command and the fields of the recipe that they fill; those that are not given keep its defaults.
_RECIPE_OPTIONS = {"seed": "seed", "tokenizer": "tokenizer", "eos": "eos", "on_error": "on_error", "shuffle": "shuffle"}
_STORE_OPTIONS = {
    "tokens_per_shard": "tokens_per_shard", "val_fraction": "val_fraction", "compression": "compression"
}  # fmt: skip
_SOURCE_OPTIONS = {"text": "text", "id": "id", "documents": "documents", "encoding": "encoding"}


def _given(chosen: argparse.Namespace, fields: dict[str, str]) -> dict[str, object]:
    values = {field: getattr(chosen, option) for option, field in fields.items()}
    return {field: value for field, value in values.items() if value is not None}


def named_input(given: str) -> tuple[str, str]:
    """(source, path) of NAME=PATH; else a folder is a source by its name, and files and patterns are one, `text`."""
    name, equals, path = given.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name) and not place_at(given).exists():
        return name, path
    folder = Path(given).expanduser()
    return (folder.name if place_at(folder).is_folder() else "") or "text", given


# init, train-tokenizer


def add_init(commands: Commands) -> None:
    """`gristmill init`"""
    parser = command(
        commands, "init", _run_init,
        "Write a recipe with every key explained. Edit its sources, then give it to `gristmill prepare --recipe`.",
        "", "corpus.yaml",
    )  # fmt: skip
    parser.add_argument(
        "path", nargs="?", default="recipe.yaml", metavar="FILE", help="The file to write; recipe.yaml by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace the file.")


def _run_init(chosen: argparse.Namespace) -> None:
    from gristmill.recipe_template import TEMPLATE
    from gristmill.show.terminal import line

    path = Path(chosen.path)
    if place_at(path).exists() and not chosen.overwrite:
        raise ConfigError(f"{path} exists: choose another name, or say --overwrite.")
    place_at(path).write(TEMPLATE)
    then = f"edit its sources, then run `gristmill prepare --recipe {path} --dry-run`"
    answer(chosen, {"path": str(path)}, lambda: line(f"{path} is written: {then}."))


def add_train_tokenizer(commands: Commands) -> None:
    """`gristmill train-tokenizer`"""
    parser = command(
        commands, "train-tokenizer", _run_train_tokenizer,
        "Learn a byte-level BPE tokenizer from your own text. The file is used by `--tokenizer FILE`.",
        "raw/*.txt --out tokenizer.json --vocab-size 32000",
    )  # fmt: skip
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="Files, folders or patterns, as for prepare.")
    parser.add_argument("--out", required=True, metavar="FILE", help="The tokenizer.json to write.")
    parser.add_argument(
        "--vocab-size", type=number(Positive), default=32_000, metavar="N", help="Ids in all; 32,000 by default."
    )
    parser.add_argument("--limit", default="1GB", metavar="SIZE", help="Text to learn from, at most; 1GB by default.")
    parser.add_argument(
        "--text-field", dest="text", metavar="KEY", help="The text stands under this key or column; `text` by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace the file.")


def _run_train_tokenizer(chosen: argparse.Namespace) -> None:
    from gristmill.show.exchange import show_trained
    from gristmill.training import train_tokenizer

    with progress_bar(chosen) as bar:
        report = train_tokenizer(
            chosen.inputs, chosen.out, vocab_size=chosen.vocab_size, limit=chosen.limit,
            text=chosen.text or "text", overwrite=chosen.overwrite, progress=bar,
        )  # fmt: skip
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_trained(chosen.out, report, bar.took()))
