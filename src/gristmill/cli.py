"""The command line: the library's own words. Errors are one sentence; exit 2 for the user's, 1 for others."""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.core.errors import ConfigError, GristmillError, did_you_mean

if TYPE_CHECKING:
    from gristmill.recipe import Recipe
    from gristmill.show import Bar


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the process's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter is no reason to stop
    parser = build_parser()
    chosen, unknown = parser.parse_known_args(arguments)
    if not hasattr(chosen, "run"):
        parser.print_help()
        return 2
    try:
        _refuse_unknown(chosen.parser, unknown)
        code = int(chosen.run(chosen) or 0)
        sys.stdout.flush()
        return code
    except GristmillError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("gristmill: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush has somewhere to go
        return 1
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        print(f"gristmill: The machine failed: {error.strerror}{place}. Mend that and run again.", file=sys.stderr)
        return 1


def _refuse_unknown(parser: argparse.ArgumentParser, unknown: list[str]) -> None:
    """Name what the command does not know, and the option that may have been meant."""
    if not unknown:
        return
    option = unknown[0].partition("=")[0]
    if not option.startswith("--"):
        raise ConfigError(f"{parser.prog} does not know what to do with {option!r}. See `{parser.prog} --help`.")
    known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    raise ConfigError(f"{parser.prog} has no option {option}{did_you_mean(option, known)}.")


class _Parser(argparse.ArgumentParser):
    """argparse in our words: one sentence, whole option names, and the nearest command to a misspelt one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> Any:
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            known = wrong[2].replace("'", "").split(", ")
            message = f"There is no command {wrong[1]!r}{did_you_mean(wrong[1], known)}"
        print(f"gristmill: {message[:1].upper()}{message[1:]}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(prog="gristmill", description="Raw text to the batches a language model trains on.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for add in (_prepare, _inspect, _verify, _index, _join, _export, _import, _bench, _demo):
        add(commands)
    return parser


def _version() -> str:
    import importlib.metadata

    return f"gristmill {importlib.metadata.version('gristmill')}"


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run, parser=parser)
    return parser


def _json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def _foreign_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", help="of token files without a header: uint16, uint32, ...")
    parser.add_argument("--eos", type=int, metavar="ID", help="what ends documents in token files without an index")


def _bar(chosen: argparse.Namespace) -> Bar:
    from gristmill.show import Bar

    return Bar(quiet=getattr(chosen, "json", False))


# prepare


def _prepare(commands: Any) -> None:
    parser = _command(commands, "prepare", _run_prepare, "Raw text to a store.")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="text or JSONL file, folder of such, or pattern in quotes; NAME=INPUT names its source "
        "(else a folder is a source by its name, and all files are the source 'text')",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the new store")
    parser.add_argument("--recipe", metavar="FILE", help="a YAML file that says all that decides the store's bytes")
    parser.add_argument(
        "--tokenizer", metavar="NAME", help="byte, gpt2, a tiktoken name, a tokenizer.json, a hub name; default gpt2"
    )
    parser.add_argument("--eos", type=int, metavar="ID", help="EOS id where the tokenizer does not tell it")
    parser.add_argument("--tokens-per-shard", type=int, metavar="N", help="at most; default 100,000,000")
    parser.add_argument("--val-fraction", type=float, metavar="X", help="share of documents held out; default 0.005")
    parser.add_argument("--seed", type=int, metavar="N", help="of the split into train and val; default 0")
    parser.add_argument("--text-field", metavar="KEY", help="JSONL key of the text; default text")
    parser.add_argument("--id-field", metavar="KEY", help="JSONL key of the id; default id, else file and line name it")
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), help="stop at unreadable input (default), or count and report it"
    )
    parser.add_argument("--no-normalize", action="store_true", help="keep the text as it is")
    parser.add_argument("--no-dedup", action="store_true", help="keep duplicates")
    parser.add_argument(
        "--pack", type=int, action="append", default=[], metavar="SEQ_LEN", help="also build a pack index; repeatable"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    _json_option(parser)


def _run_prepare(chosen: argparse.Namespace) -> None:
    from gristmill.indexing import index
    from gristmill.run import prepare
    from gristmill.show import console, show_store
    from gristmill.store.opening import open_split, open_store

    recipe = _read_recipe(chosen) if chosen.recipe else _make_recipe(chosen)
    root = Path(recipe.out)
    with _bar(chosen) as bar:
        if not (chosen.no_normalize and chosen.no_dedup):
            bar.note("Documents are kept as they are: rules to normalise, filter and dedup are not in this version.")
        prepare(recipe, overwrite=chosen.overwrite, progress=bar)
        for seq_len in chosen.pack:
            index(open_split(root, "train"), seq_len, progress=bar)
    show_store(root, open_store, as_json=chosen.json)
    if not chosen.json:
        console.print(f'Open it in Python: gristmill.open("{root / "train"}")', soft_wrap=True)


def _read_recipe(chosen: argparse.Namespace) -> Recipe:
    """The recipe file; it says everything but where to write, which --out may say instead."""
    from gristmill.recipe import read_recipe

    options = ("inputs", *_RECIPE_OPTIONS, *_STORE_OPTIONS, *_SOURCE_OPTIONS)
    given = [name for name in options if getattr(chosen, name) not in (None, [])]
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
        name, path = _named(given)
        paths.setdefault(name, []).append(path)
    fields = _given(chosen, _SOURCE_OPTIONS)
    return Recipe(
        out=chosen.out,
        sources=[SourceOptions(name, found, **fields) for name, found in paths.items()],
        store=StoreOptions(**_given(chosen, _STORE_OPTIONS)),
        **_given(chosen, _RECIPE_OPTIONS),
    )


# Options of the command and the fields of the recipe that they fill; those that are not given keep its defaults.
_RECIPE_OPTIONS = {"seed": "seed", "tokenizer": "tokenizer", "eos": "eos", "on_error": "on_error"}
_STORE_OPTIONS = {"tokens_per_shard": "tokens_per_shard", "val_fraction": "val_fraction"}
_SOURCE_OPTIONS = {"text_field": "text", "id_field": "id"}


def _given(chosen: argparse.Namespace, fields: dict[str, str]) -> dict[str, Any]:
    values = {field: getattr(chosen, option) for option, field in fields.items()}
    return {field: value for field, value in values.items() if value is not None}


def _named(given: str) -> tuple[str, str]:
    """(source, path) of NAME=PATH; else a folder is a source by its name, and files and patterns are one, `text`."""
    name, equals, path = given.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name) and not Path(given).exists():
        return name, path
    return (Path(given).name if Path(given).is_dir() else "") or "text", given


# inspect, verify


def _inspect(commands: Any) -> None:
    parser = _command(commands, "inspect", _run_inspect, "What is in a store, a plan or a checkpoint.")
    parser.add_argument("path", metavar="PATH", help="store folder, token file, plan JSON or checkpoint JSON")
    parser.add_argument("--doc", metavar="ID", help="a document: where it is in a store, when a plan shows it")
    parser.add_argument("--step", type=int, metavar="N", help="a plan's step: which documents are in it")
    parser.add_argument("--until", type=int, metavar="N", help="look this far into a plan; default its end")
    parser.add_argument("--plan", metavar="FILE", help="with a checkpoint: the plan that it must belong to")
    _foreign_options(parser)
    _json_option(parser)


def _run_inspect(chosen: argparse.Namespace) -> None:
    from gristmill import show
    from gristmill.store.opening import open_store

    path = Path(chosen.path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist.")
    if path.suffix == ".json" and path.name != "manifest.json" and path.is_file():
        show.show_json_file(path, chosen)
        return
    path = path.parent if path.name == "manifest.json" else path
    for name in ("step", "until", "plan"):
        if getattr(chosen, name) is not None:
            raise ConfigError(f"--{name} asks about a plan or a checkpoint: give its JSON file instead of a store.")
    if chosen.doc is not None:
        show.show_document(open_all(path, chosen.dtype, chosen.eos), chosen.doc, chosen.json)
    elif path.is_dir():
        show.show_store(path, open_store, as_json=chosen.json)
    else:
        show.show_tokens(open_store(path, chosen.dtype, chosen.eos), chosen.json)


def open_all(path: Path, dtype: str | None, eos: int | None) -> list[Any]:
    """The store at `path`; a root gives both of its splits."""
    from gristmill.store.manifest import MANIFEST, SPLITS
    from gristmill.store.opening import open_split, open_store

    if (path / MANIFEST).exists():
        return [open_split(path, split) for split in SPLITS]
    return [open_store(path, dtype, eos)]


def _verify(commands: Any) -> None:
    parser = _command(commands, "verify", _run_verify, "Check every checksum, count and boundary of a store.")
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    _json_option(parser)


def _run_verify(chosen: argparse.Namespace) -> int:
    from gristmill.show import print_json
    from gristmill.store.manifest import MANIFEST, read_manifest
    from gristmill.store.verify import verify

    path = Path(chosen.path)
    with _bar(chosen) as bar:
        root = path if (path / MANIFEST).exists() else path.parent
        splits = read_manifest(root)["splits"] if (root / MANIFEST).exists() else {}
        bar.start("verifying", sum(split["tokens"] for split in splits.values()))
        verdict = verify(path, bar.advance)
    if chosen.json:
        print_json(vars(verdict))
    else:
        counts = f"{verdict.shards:,} shards, {verdict.documents:,} documents, {verdict.tokens:,} tokens"
        print(f"{chosen.path}: {counts}: {f'faults: {len(verdict.faults):,}' if verdict.faults else 'whole'}")
    for fault in verdict.faults:
        print(f"gristmill: {fault}", file=sys.stderr)
    return 1 if verdict.faults else 0


# index, join, export, import


def _index(commands: Any) -> None:
    parser = _command(
        commands, "index", _run_index, 'Build what cut="pack" reads, or the documents of a bare token file.'
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a split of a store, or token files")
    parser.add_argument("--seq-len", type=int, metavar="N", help="build the pack index for windows of this length")
    _foreign_options(parser)
    parser.add_argument("--index-dir", metavar="DIR", help="where pack indices live, if not beside the tokens")
    parser.add_argument("--force", action="store_true", help="build again what is there")


def _run_index(chosen: argparse.Namespace) -> None:
    from gristmill.indexing import index, index_documents
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    store = open_store(paths, chosen.dtype, chosen.eos, chosen.index_dir)
    with _bar(chosen) as bar:
        if chosen.seq_len is not None:
            print(index(store, chosen.seq_len, force=chosen.force, progress=bar))
        elif chosen.eos is not None:
            for path in index_documents(store, force=chosen.force, progress=bar):
                print(path)
        else:
            raise ConfigError("index needs --seq-len (a pack index) or --eos (the documents of bare token files).")


def _join(commands: Any) -> None:
    parser = _command(commands, "join", _run_join, "Several stores as one, tokens where they are.")
    parser.add_argument("paths", nargs="+", metavar="STORE", help="stores that stay in place; the order counts")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the new store")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    _json_option(parser)


def _run_join(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_store
    from gristmill.store.exchange import join
    from gristmill.store.opening import open_store

    join(chosen.paths, chosen.out, overwrite=chosen.overwrite)
    show_store(Path(chosen.out), open_store, as_json=chosen.json)


def _export(commands: Any) -> None:
    parser = _command(
        commands, "export", _run_export, "A store in another system's format, by links where bytes are equal."
    )
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="megatron, olmo, nanogpt, llmc or npy")
    parser.add_argument("--out", required=True, metavar="DIR", help="an empty folder")
    parser.add_argument("--overwrite", action="store_true", help="replace an older export")
    _json_option(parser)


def _run_export(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_exchange
    from gristmill.store.export import export_store

    report = export_store(Path(chosen.path), chosen.to, Path(chosen.out), overwrite=chosen.overwrite)
    show_exchange(report, chosen.json)


def _import(commands: Any) -> None:
    parser = _command(commands, "import", _run_import, "Another system's token files as a store.")
    parser.add_argument("paths", nargs="+", metavar="FILE", help=".bin, .npy, Megatron's or llm.c's; a shard each")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the new store")
    parser.add_argument("--tokenizer", required=True, metavar="NAME", help="the tokenizer that made the tokens")
    parser.add_argument("--eos", type=int, metavar="ID", help="if not the tokenizer's own")
    parser.add_argument("--dtype", help="of files without a header: uint16, uint32, ...")
    parser.add_argument(
        "--boundaries",
        choices=("auto", "eos"),
        default="auto",
        help="documents by the files' own index where there is one (default), or by EOS alone",
    )
    parser.add_argument("--split", default="train", choices=("train", "val"), help="default train")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    _json_option(parser)


def _run_import(chosen: argparse.Namespace) -> None:
    from gristmill.run import import_tokens
    from gristmill.show import show_exchange

    options = {name: getattr(chosen, name) for name in ("eos", "dtype", "boundaries", "overwrite")}
    with _bar(chosen) as bar:
        report = import_tokens(
            chosen.paths, chosen.out, chosen.tokenizer, split_name=chosen.split, progress=bar, **options
        )
    show_exchange(report, chosen.json)


# bench, demo


def _bench(commands: Any) -> None:
    parser = _command(commands, "bench", _run_bench, "What this machine's loader delivers from a store.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a store, or token files")
    parser.add_argument("--seq-len", type=int, default=2048, metavar="N", help="default 2048")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="default 64")
    parser.add_argument("--cut", default="chunk", help="chunk (default), pack, pad or window")
    parser.add_argument("--keys", default="", metavar="K,K", help="more arrays: labels,doc_ids,position_ids,cu_seqlens")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="X", help="for each number of threads; default 3")
    _foreign_options(parser)
    _json_option(parser)


def _run_bench(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_bench
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    show_bench(open_store(paths, chosen.dtype, chosen.eos), chosen)


def _demo(commands: Any) -> None:
    parser = _command(commands, "demo", _run_demo, "All of it on text that every Python has, in under a minute.")
    parser.add_argument("--out", metavar="DIR", help="keep the stores in this folder (default: a temporary one)")


def _run_demo(chosen: argparse.Namespace) -> None:
    from gristmill.demo import demo

    demo(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
