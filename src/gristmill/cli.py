"""The command line: the library's own words. Errors are one sentence; exit 2 for the user's, 1 for others."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.cli_options import command, foreign_options, json_option, progress_bar
from gristmill.cli_prepare import add_init, add_prepare, add_train_tokenizer
from gristmill.core.errors import ConfigError, GristmillError, did_you_mean


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
    except SystemError as error:  # Numba's loader wraps an interrupt that reaches it
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
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
    for add in (
        add_prepare, add_init, add_train_tokenizer, _inspect, _verify, _index, _join, _export, _import, _bench, _demo
    ):  # fmt: skip
        add(commands)
    return parser


def _version() -> str:
    import importlib.metadata

    return f"gristmill {importlib.metadata.version('gristmill')}"


# inspect, verify


def _inspect(commands: Any) -> None:
    parser = command(commands, "inspect", _run_inspect, "What is in a store, a plan or a checkpoint.")
    parser.add_argument("path", metavar="PATH", help="store folder, token file, plan JSON or checkpoint JSON")
    parser.add_argument("--doc", metavar="ID", help="a document: where it is in a store, when a plan shows it")
    parser.add_argument("--step", type=int, metavar="N", help="a plan's step: which documents are in it")
    parser.add_argument("--until", type=int, metavar="N", help="look this far into a plan; default its end")
    parser.add_argument("--plan", metavar="FILE", help="with a checkpoint: the plan that it must belong to")
    foreign_options(parser)
    json_option(parser)


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
        show.show_document(path, open_all(path, chosen.dtype, chosen.eos), chosen.doc, chosen.json)
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
    parser = command(commands, "verify", _run_verify, "Check every checksum, count and boundary of a store.")
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    json_option(parser)


def _run_verify(chosen: argparse.Namespace) -> int:
    from gristmill.show import print_json
    from gristmill.store.manifest import MANIFEST, read_manifest
    from gristmill.store.verify import verify

    path = Path(chosen.path)
    with progress_bar(chosen) as bar:
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
    parser = command(
        commands, "index", _run_index, 'Build what cut="pack" reads, or the documents of a bare token file.'
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a split of a store, or token files")
    parser.add_argument("--seq-len", type=int, metavar="N", help="build the pack index for windows of this length")
    foreign_options(parser)
    parser.add_argument("--index-dir", metavar="DIR", help="where pack indices live, if not beside the tokens")
    parser.add_argument("--force", action="store_true", help="build again what is there")


def _run_index(chosen: argparse.Namespace) -> None:
    from gristmill.indexing import index, index_documents
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    store = open_store(paths, chosen.dtype, chosen.eos, chosen.index_dir)
    with progress_bar(chosen) as bar:
        if chosen.seq_len is not None:
            print(index(store, chosen.seq_len, force=chosen.force, progress=bar))
        elif chosen.eos is not None:
            for path in index_documents(store, force=chosen.force, progress=bar):
                print(path)
        else:
            raise ConfigError("index needs --seq-len (a pack index) or --eos (the documents of bare token files).")


def _join(commands: Any) -> None:
    parser = command(commands, "join", _run_join, "Several stores as one, tokens where they are.")
    parser.add_argument("paths", nargs="+", metavar="STORE", help="stores that stay in place; the order counts")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the new store")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    json_option(parser)


def _run_join(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_store
    from gristmill.store.exchange import join
    from gristmill.store.opening import open_store

    join(chosen.paths, chosen.out, overwrite=chosen.overwrite)
    show_store(Path(chosen.out), open_store, as_json=chosen.json)


def _export(commands: Any) -> None:
    parser = command(
        commands, "export", _run_export, "A store in another system's format, by links where bytes are equal."
    )
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="megatron, olmo, nanogpt, llmc or npy")
    parser.add_argument("--out", required=True, metavar="DIR", help="an empty folder")
    parser.add_argument("--overwrite", action="store_true", help="replace an older export")
    json_option(parser)


def _run_export(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_exchange
    from gristmill.store.export import export_store

    report = export_store(Path(chosen.path), chosen.to, Path(chosen.out), overwrite=chosen.overwrite)
    show_exchange(report, chosen.json)


def _import(commands: Any) -> None:
    parser = command(commands, "import", _run_import, "Another system's token files as a store.")
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
    json_option(parser)


def _run_import(chosen: argparse.Namespace) -> None:
    from gristmill.run import import_tokens
    from gristmill.show import show_exchange

    options = {name: getattr(chosen, name) for name in ("eos", "dtype", "boundaries", "overwrite")}
    with progress_bar(chosen) as bar:
        report = import_tokens(
            chosen.paths, chosen.out, chosen.tokenizer, split_name=chosen.split, progress=bar, **options
        )
    show_exchange(report, chosen.json)


# bench, demo


def _bench(commands: Any) -> None:
    parser = command(commands, "bench", _run_bench, "What this machine's loader delivers from a store.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a store, or token files")
    parser.add_argument("--seq-len", type=int, default=2048, metavar="N", help="default 2048")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="default 64")
    parser.add_argument("--cut", default="chunk", help="chunk (default), pack, pad or window")
    parser.add_argument("--keys", default="", metavar="K,K", help="more arrays: labels,doc_ids,position_ids,cu_seqlens")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="X", help="for each number of threads; default 3")
    foreign_options(parser)
    json_option(parser)


def _run_bench(chosen: argparse.Namespace) -> None:
    from gristmill.show import show_bench
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    show_bench(open_store(paths, chosen.dtype, chosen.eos), chosen)


def _demo(commands: Any) -> None:
    parser = command(commands, "demo", _run_demo, "All of it on text that every Python has, in under a minute.")
    parser.add_argument("--out", metavar="DIR", help="keep the stores in this folder (default: a temporary one)")


def _run_demo(chosen: argparse.Namespace) -> None:
    from gristmill.demo import demo

    demo(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
