"""The commands that make stores: prepare, init, train-tokenizer."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.cli_options import command, json_option, progress_bar
from gristmill.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from gristmill.recipe import Recipe
    from gristmill.run import RunOptions

_DEDUPS = ("exact", "lines", "near")
_SAMPLE = 1000


def add_prepare(commands: Any) -> None:
    """`gristmill prepare`"""
    parser = command(commands, "prepare", _run_prepare, "Raw text to a store.")
    _add_recipe_options(parser)
    _add_run_options(parser)
    json_option(parser)


def _add_recipe_options(parser: argparse.ArgumentParser) -> None:
    """What decides the bytes of the store."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="text, JSONL, Parquet, Arrow or tar file, plain or compressed, folder of such, or pattern in quotes; "
        "NAME=INPUT names its source (else a folder is a source by its name, and all files are the source 'text')",
    )
    parser.add_argument(
        "--input-files", nargs="+", action="extend", default=[], metavar="INPUT", help="the same, as an option"
    )
    parser.add_argument("--out", "--out-dir", metavar="DIR", help="folder of the new store")
    parser.add_argument("--recipe", metavar="FILE", help="a YAML file that says all that decides the store's bytes")
    parser.add_argument(
        "--tokenizer", "--tokenization", metavar="NAME",
        help="byte, gpt2, a tiktoken name, a tokenizer.json, a hub name; default gpt2",
    )  # fmt: skip
    parser.add_argument("--eos", type=int, metavar="ID", help="EOS id where the tokenizer does not tell it")
    parser.add_argument("--tokens-per-shard", type=int, metavar="N", help="at most; default 100,000,000")
    parser.add_argument("--val-fraction", type=float, metavar="X", help="share of documents held out; default 0.005")
    parser.add_argument("--compression", choices=("none", "zstd"), help="of the tokens; default none")
    parser.add_argument("--seed", type=int, metavar="N", help="of the split into train and val, and of --shuffle")
    parser.add_argument("--shuffle", action="store_const", const=True, help="shuffle the documents of the store")
    parser.add_argument("--text-field", metavar="KEY", help="key or column of the text; default text")
    parser.add_argument("--id-field", metavar="KEY", help="key or column of the id; default id, else its place")
    parser.add_argument("--fields", metavar="K,K", help="more keys or columns to carry into the documents' table")
    parser.add_argument(
        "--documents", choices=("file", "line", "paragraph"), help="what a document is in plain text; default file"
    )
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), help="stop at unreadable input (default), or count and report it"
    )
    parser.add_argument("--no-normalize", action="store_true", help="keep the text as it is")
    parser.add_argument("--dedup", metavar="K,K", help="exact (default), lines, near, in this order")
    parser.add_argument("--no-dedup", action="store_true", help="keep duplicates")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """What changes no byte of it."""
    parser.add_argument("--workers", type=int, metavar="N", help="processes; default as many as cores")
    parser.add_argument(
        "--memory", metavar="SIZE", help="for the whole run; what does not fit spills to disk; default 4GB"
    )
    parser.add_argument("--work", metavar="DIR", help="keep unfinished work here, and use it again in later runs")
    parser.add_argument("--save-index", metavar="DIR", help="keep what later runs need to find near duplicates of this")
    parser.add_argument("--keep-dropped", action="store_true", help="keep the texts of dropped documents")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and an estimate; write nothing")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="judge N documents by each rule alone and together; write nothing"
    )
    parser.add_argument(
        "--pack", type=int, action="append", default=[], metavar="SEQ_LEN", help="also build a pack index; repeatable"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")


def _run_prepare(chosen: argparse.Namespace) -> None:
    from gristmill.indexing import index
    from gristmill.run import prepare
    from gristmill.show.store import show_store
    from gristmill.show.terminal import console
    from gristmill.store.opening import open_split, open_store

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
    show_store(root, open_store, as_json=chosen.json)
    if not chosen.json:
        console.print(f'Open it in Python: gristmill.open("{root / "train"}")', soft_wrap=True)


def _look_ahead(recipe: Recipe, chosen: argparse.Namespace) -> None:
    """A dry run: what would be done, and what a sample says of it."""
    from gristmill.run import dry_run
    from gristmill.show.forecast import show_forecast

    with progress_bar(chosen) as bar:
        forecast = dry_run(recipe, sample=chosen.sample or _SAMPLE, progress=bar, options=_run_options(chosen))
    show_forecast(forecast, chosen.json)


def _run_options(chosen: argparse.Namespace) -> RunOptions:
    from gristmill.run import RunOptions

    names = ("workers", "memory", "work", "save_index")
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
        name = "INPUT" if given[0] == "inputs" else f"--{given[0].replace('_', '-')}"
        raise ConfigError(f"--recipe says everything: put {name} into {chosen.recipe}.")
    recipe = read_recipe(chosen.recipe)
    return dataclasses.replace(recipe, out=chosen.out) if chosen.out else recipe


def _make_recipe(chosen: argparse.Namespace) -> Recipe:
    from gristmill.recipe import Recipe, SourceOptions, StoreOptions

    if not chosen.inputs or not chosen.out:
        raise ConfigError("prepare needs INPUTs and --out DIR, or --recipe FILE.")
    paths: dict[str, list[str]] = {}
    for given in chosen.inputs:
        name, path = named_input(given)
        paths.setdefault(name, []).append(path)
    fields = _given(chosen, _SOURCE_OPTIONS)
    if chosen.fields:
        fields["fields"] = chosen.fields.split(",")
    cleaning: dict[str, Any] = {"clean": None} if chosen.no_normalize else {}
    return Recipe(
        out=chosen.out,
        sources=[SourceOptions(name, found, **fields) for name, found in paths.items()],
        store=StoreOptions(**_given(chosen, _STORE_OPTIONS)),
        **cleaning,
        **_dedup(chosen),
        **_given(chosen, _RECIPE_OPTIONS),
    )


def _dedup(chosen: argparse.Namespace) -> dict[str, Any]:
    """The kinds of dedup that the options name; without any the recipe's default."""
    if chosen.no_dedup and chosen.dedup:
        raise ConfigError("--dedup and --no-dedup exclude each other.")
    if chosen.no_dedup:
        return {"dedup": ()}
    kinds = chosen.dedup.split(",") if chosen.dedup else None
    for kind in kinds or ():
        if kind not in _DEDUPS:
            raise ConfigError(f"--dedup knows {', '.join(_DEDUPS)}, not {kind!r}{did_you_mean(kind, _DEDUPS)}.")
    return {"dedup": kinds} if kinds else {}


# Options of the command and the fields of the recipe that they fill; those that are not given keep its defaults.
_RECIPE_OPTIONS = {"seed": "seed", "tokenizer": "tokenizer", "eos": "eos", "on_error": "on_error", "shuffle": "shuffle"}
_STORE_OPTIONS = {
    "tokens_per_shard": "tokens_per_shard", "val_fraction": "val_fraction", "compression": "compression"
}  # fmt: skip
_SOURCE_OPTIONS = {"text_field": "text", "id_field": "id", "documents": "documents"}


def _given(chosen: argparse.Namespace, fields: dict[str, str]) -> dict[str, Any]:
    values = {field: getattr(chosen, option) for option, field in fields.items()}
    return {field: value for field, value in values.items() if value is not None}


def named_input(given: str) -> tuple[str, str]:
    """(source, path) of NAME=PATH; else a folder is a source by its name, and files and patterns are one, `text`."""
    name, equals, path = given.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name) and not Path(given).exists():
        return name, path
    return (Path(given).name if Path(given).is_dir() else "") or "text", given


# init, train-tokenizer


def add_init(commands: Any) -> None:
    """`gristmill init`"""
    parser = command(commands, "init", _run_init, "Write a recipe with every key explained.")
    parser.add_argument("path", nargs="?", default="recipe.yaml", metavar="FILE", help="default recipe.yaml")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def _run_init(chosen: argparse.Namespace) -> None:
    from gristmill.recipe_template import TEMPLATE

    path = Path(chosen.path)
    if path.exists() and not chosen.overwrite:
        raise ConfigError(f"{path} exists: choose another name, or say --overwrite.")
    path.write_text(TEMPLATE, encoding="utf-8")
    print(f"{path} is written: edit its sources, then run `gristmill prepare --recipe {path} --dry-run`.")


def add_train_tokenizer(commands: Any) -> None:
    """`gristmill train-tokenizer`"""
    parser = command(commands, "train-tokenizer", _run_train_tokenizer, "A byte-level BPE tokenizer of your own text.")
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="as for prepare")
    parser.add_argument("--out", required=True, metavar="FILE", help="the tokenizer.json to write")
    parser.add_argument("--vocab-size", type=int, default=32_000, metavar="N", help="ids in all; default 32,000")
    parser.add_argument("--limit", default="1GB", metavar="SIZE", help="of text to learn from; default 1GB")
    parser.add_argument("--text-field", metavar="KEY", help="key or column of the text; default text")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def _run_train_tokenizer(chosen: argparse.Namespace) -> None:
    from gristmill.run import train_tokenizer

    with progress_bar(chosen) as bar:
        report = train_tokenizer(
            chosen.inputs, chosen.out, vocab_size=chosen.vocab_size, limit=chosen.limit,
            text=chosen.text_field or "text", overwrite=chosen.overwrite, progress=bar,
        )  # fmt: skip
    learnt = f"{report.vocab_size:,} ids from {report.documents:,} documents, {report.text_bytes:,} bytes"
    print(f"{chosen.out} holds {learnt}: use it by --tokenizer {chosen.out}.")
