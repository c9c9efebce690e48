"""The command line: the library's own words. Errors are one sentence; exit 2 for the user's, 1 for others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.core.errors import ConfigError, GristmillError

if TYPE_CHECKING:
    from gristmill.show import Bar


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the process's exit code."""
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    if not hasattr(chosen, "run"):
        parser.print_help()
        return 2
    try:
        return int(chosen.run(chosen) or 0)
    except GristmillError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("gristmill: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        print(f"gristmill: the machine failed: {error}", file=sys.stderr)
        return 1


class _Parser(argparse.ArgumentParser):
    """argparse in our words: one sentence, and the nearest option or command."""

    def error(self, message: str) -> Any:
        print(f"gristmill: {message}. See `{self.prog} --help`.", file=sys.stderr)
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
    parser.set_defaults(run=run)
    return parser


def _bar(chosen: argparse.Namespace) -> Bar:
    from gristmill.show import Bar

    return Bar(quiet=getattr(chosen, "json", False))


def _print_json(values: Any) -> None:
    print(json.dumps(values, indent=1))


# prepare


def _prepare(commands: Any) -> None:
    parser = _command(commands, "prepare", _run_prepare, "Raw text to a store.")
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT", help="file, folder or pattern; NAME=PATH names its source"
    )
    parser.add_argument("--recipe", help="a YAML file that says everything")
    parser.add_argument("--out", help="folder of the new store")
    parser.add_argument("--tokenizer", default="gpt2", help="byte, gpt2, a tiktoken name, a tokenizer.json, a hub name")
    parser.add_argument("--eos", type=int, help="EOS id where the tokenizer does not tell it")
    parser.add_argument("--tokens-per-shard", type=int, default=100_000_000, help="default 100,000,000")
    parser.add_argument("--val-fraction", type=float, default=0.005, help="share of documents held out, default 0.005")
    parser.add_argument("--seed", type=int, default=0, help="of the split into train and val")
    parser.add_argument("--text-field", default="text", help="JSONL key of the text")
    parser.add_argument("--id-field", default="id", help="JSONL key of the id")
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), default="raise", help="what to do with unreadable input"
    )
    parser.add_argument("--no-normalize", action="store_true", help="keep the text as it is")
    parser.add_argument("--no-dedup", action="store_true", help="keep duplicates")
    parser.add_argument(
        "--pack", type=int, action="append", default=[], metavar="SEQ_LEN", help="also build a pack index"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    parser.add_argument("--json", action="store_true", help="print the manifest's figures as JSON")


def _run_prepare(chosen: argparse.Namespace) -> None:
    from gristmill.recipe import read_recipe
    from gristmill.run import index, prepare
    from gristmill.show import show_store
    from gristmill.store.opening import open_split, open_store

    recipe = read_recipe(chosen.recipe) if chosen.recipe else _recipe(chosen)
    with _bar(chosen) as bar:
        if not (chosen.no_normalize and chosen.no_dedup):
            bar.note("Documents are kept as they are: rules to normalise, filter and dedup are not in this version.")
        prepare(recipe, overwrite=chosen.overwrite, progress=bar)
        for seq_len in chosen.pack:
            index(open_split(Path(recipe.out), "train"), seq_len, progress=bar)
    show_store(Path(recipe.out), open_store, as_json=chosen.json)


def _recipe(chosen: argparse.Namespace) -> Any:
    from gristmill.recipe import Recipe, SourceOptions, StoreOptions

    if not chosen.inputs or not chosen.out:
        raise ConfigError("prepare needs INPUTs and --out DIR, or --recipe FILE.")
    sources: dict[str, list[str]] = {}
    for given in chosen.inputs:
        name, path = _named(given)
        sources.setdefault(name, []).append(path)
    return Recipe(
        out=chosen.out,
        sources=[SourceOptions(name, paths, chosen.text_field, chosen.id_field) for name, paths in sources.items()],
        seed=chosen.seed,
        tokenizer=chosen.tokenizer,
        eos=chosen.eos,
        store=StoreOptions(chosen.tokens_per_shard, chosen.val_fraction),
        on_error=chosen.on_error,
    )


def _named(given: str) -> tuple[str, str]:
    """NAME=PATH, or a path that names its source itself: its file or folder name without suffix."""
    name, equals, path = given.partition("=")
    if equals and name.isidentifier() and not Path(given).exists():
        return name, path
    return (Path(given).stem.split("*")[0] or "text"), given


# inspect, verify


def _inspect(commands: Any) -> None:
    parser = _command(commands, "inspect", _run_inspect, "What is in a store, a plan or a checkpoint.")
    parser.add_argument("path", help="store folder, token file, plan JSON or checkpoint JSON")
    parser.add_argument("--doc", help="a document's id: where it is, and in a plan when it is seen")
    parser.add_argument("--step", type=int, help="a plan's step: which documents are in it")
    parser.add_argument("--until", type=int, help="with --doc on an endless plan: look this far")
    parser.add_argument("--plan", help="with a checkpoint: the plan that it must belong to")
    parser.add_argument("--dtype", help="for headerless token files")
    parser.add_argument("--eos", type=int, help="for token files without an index")
    parser.add_argument("--json", action="store_true")


def _run_inspect(chosen: argparse.Namespace) -> None:
    from gristmill import show
    from gristmill.store.opening import open_store

    path = Path(chosen.path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist.")
    if path.suffix == ".json" and path.name != "manifest.json":
        show.show_json_file(path, chosen)
        return
    path = path.parent if path.name == "manifest.json" else path
    if chosen.step is not None:
        raise ConfigError("--step asks about a plan: give the plan's JSON file instead of a store.")
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
    parser.add_argument("path")
    parser.add_argument("--json", action="store_true")


def _run_verify(chosen: argparse.Namespace) -> int:
    from gristmill.store.manifest import MANIFEST, read_manifest
    from gristmill.store.verify import verify

    path = Path(chosen.path)
    with _bar(chosen) as bar:
        root = path if (path / MANIFEST).exists() else path.parent
        splits = read_manifest(root)["splits"] if (root / MANIFEST).exists() else {}
        bar.start("verifying", sum(split["tokens"] for split in splits.values()))
        verdict = verify(path, bar.advance)
    if chosen.json:
        _print_json(vars(verdict))
    else:
        counts = f"{verdict.shards:,} shards, {verdict.documents:,} documents, {verdict.tokens:,} tokens"
        print(f"{chosen.path}: {counts}: {'whole' if not verdict.faults else f'{len(verdict.faults)} faults'}")
    for fault in verdict.faults:
        print(f"gristmill: {fault}", file=sys.stderr)
    return 1 if verdict.faults else 0


# index, join, export, import


def _index(commands: Any) -> None:
    parser = _command(
        commands, "index", _run_index, 'Build what cut="pack" reads, or the documents of a bare token file.'
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a split of a store, or token files")
    parser.add_argument("--seq-len", type=int, help="build the pack index for windows of this length")
    parser.add_argument("--dtype")
    parser.add_argument("--eos", type=int, help="without --seq-len: find documents by this EOS and write FILE.idx")
    parser.add_argument("--index-dir", help="where pack indices live, if not beside the tokens")
    parser.add_argument("--force", action="store_true", help="build again what is there")


def _run_index(chosen: argparse.Namespace) -> None:
    from gristmill.run import index, index_documents
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    store = open_store(paths, chosen.dtype, chosen.eos, chosen.index_dir)
    with _bar(chosen) as bar:
        if chosen.seq_len:
            print(index(store, chosen.seq_len, force=chosen.force, progress=bar))
        elif chosen.eos is not None:
            for path in index_documents(store, force=chosen.force, progress=bar):
                print(path)
        else:
            raise ConfigError("index needs --seq-len (a pack index) or --eos (documents of a bare token file).")


def _join(commands: Any) -> None:
    parser = _command(commands, "join", _run_join, "Several stores as one, tokens where they are.")
    parser.add_argument("paths", nargs="+", metavar="STORE")
    parser.add_argument("--out", required=True)


def _run_join(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_store
    from gristmill.store.exchange import join
    from gristmill.store.opening import open_store

    join([Path(path) for path in chosen.paths], Path(chosen.out))
    show_store(Path(chosen.out), open_store, as_json=False)


def _export(commands: Any) -> None:
    parser = _command(
        commands, "export", _run_export, "A store in another system's format, by links where bytes are equal."
    )
    parser.add_argument("path")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="megatron, olmo, nanogpt, llmc, npy")
    parser.add_argument("--out", required=True)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--json", action="store_true")


def _run_export(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_exchange
    from gristmill.store.export import export_store

    report = export_store(Path(chosen.path), chosen.to, Path(chosen.out), overwrite=chosen.overwrite)
    show_exchange(report, chosen.json)


def _import(commands: Any) -> None:
    parser = _command(commands, "import", _run_import, "Another system's token files as a store.")
    parser.add_argument("paths", nargs="+", metavar="FILE")
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokenizer", required=True, help="the tokenizer that made the tokens")
    parser.add_argument("--eos", type=int, help="if not the tokenizer's own")
    parser.add_argument("--dtype", help="for headerless files")
    parser.add_argument("--split", default="train", choices=("train", "val"))
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--json", action="store_true")


def _run_import(chosen: argparse.Namespace) -> None:
    from gristmill.run import import_tokens
    from gristmill.show import show_exchange

    with _bar(chosen) as bar:
        report = import_tokens(
            chosen.paths, chosen.out, chosen.tokenizer, eos=chosen.eos, dtype=chosen.dtype, split=chosen.split,
            overwrite=chosen.overwrite, progress=bar,
        )  # fmt: skip
    show_exchange(report, chosen.json)


# bench, demo


def _bench(commands: Any) -> None:
    parser = _command(commands, "bench", _run_bench, "What this machine's loader delivers from a store.")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--cut", default="chunk")
    parser.add_argument("--keys", default="", help="more arrays, with commas: labels,doc_ids,position_ids,cu_seqlens")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each number of threads")
    parser.add_argument("--dtype")
    parser.add_argument("--eos", type=int)
    parser.add_argument("--json", action="store_true")


def _run_bench(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_bench
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    show_bench(open_store(paths, chosen.dtype, chosen.eos), chosen)


def _demo(commands: Any) -> None:
    parser = _command(commands, "demo", _run_demo, "All of it on text that every Python has, in under a minute.")
    parser.add_argument("--out", help="keep the stores in this folder (default: a temporary one)")


def _run_demo(chosen: argparse.Namespace) -> None:
    from gristmill.demo import demo

    demo(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
