"""The commands that move finished tokens: index, join, export, import."""

from __future__ import annotations

import argparse
from pathlib import Path

from gristmill.cli_options import Commands, answer, command, foreign_options, number, progress_bar
from gristmill.core.errors import ConfigError
from gristmill.core.values import Count, Positive


def add_index(commands: Commands) -> None:
    """`gristmill index`"""
    parser = command(
        commands, "index", _run_index,
        'Build the index that cut="pack" reads, or find the documents of a bare token file. Both are made once, and '
        "lie beside the tokens.",
        "data/corpus/train --seq-len 2048", "tokens.bin --dtype uint16 --eos 50256",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="PATH", help="A split of a store, or token files.")
    parser.add_argument(
        "--seq-len", type=number(Positive), metavar="N", help="Build the pack index for windows of this length."
    )
    foreign_options(parser)
    parser.add_argument("--index-dir", metavar="DIR", help="Where pack indexes lie, if not beside the tokens.")
    parser.add_argument("--force", action="store_true", help="Build again what is there.")


def _run_index(chosen: argparse.Namespace) -> None:
    from gristmill.indexing import index, index_documents
    from gristmill.show.exchange import show_files
    from gristmill.store.opening import open_store

    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    store = open_store(paths, chosen.dtype, chosen.eos, chosen.index_dir)
    with progress_bar(chosen) as bar:
        if chosen.seq_len is not None:
            made = [index(store, chosen.seq_len, force=chosen.force, progress=bar)]
        elif chosen.eos is not None:
            made = index_documents(store, force=chosen.force, progress=bar)
        else:
            raise ConfigError("index needs --seq-len (a pack index) or --eos (the documents of bare token files).")
    names = [str(path) for path in made]
    answer(chosen, {"files": names, **bar.figures}, lambda: show_files(names))


def add_join(commands: Commands) -> None:
    """`gristmill join`"""
    parser = command(
        commands, "join", _run_join,
        "Make one store of several. Their tokens stay where they are, and must come from one tokenizer.",
        "data/2024 data/2025 --out data/both",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="STORE", help="Stores that stay in place; their order counts.")
    parser.add_argument("--out", required=True, metavar="DIR", help="The folder of the new store.")
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")


def _run_join(chosen: argparse.Namespace) -> None:
    from gristmill.figures.store import store_figures
    from gristmill.show.store import show_store
    from gristmill.store.exchange import join

    join(chosen.paths, chosen.out, overwrite=chosen.overwrite)
    figures = store_figures(Path(chosen.out))
    answer(chosen, figures.to_dict(), lambda: show_store(figures))


def add_export(commands: Commands) -> None:
    """`gristmill export`"""
    parser = command(
        commands, "export", _run_export,
        "Give a store to another system in its own format. Files are linked where the bytes are equal, and copied "
        "where they are not; what to put into that system's configuration is printed.",
        "data/corpus --to megatron --out data/megatron",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store, or one of its splits.")
    parser.add_argument(
        "--to", required=True, metavar="FORMAT", help="One of megatron, olmo, nanogpt, llmc, npy and sharded-bin."
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="An empty folder.")
    parser.add_argument("--overwrite", action="store_true", help="Replace an older export.")


def _run_export(chosen: argparse.Namespace) -> None:
    from gristmill.show.exchange import show_exchange
    from gristmill.store.export import export_store

    with progress_bar(chosen) as bar:
        report = export_store(chosen.path, chosen.to, chosen.out, overwrite=chosen.overwrite, progress=bar)
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_exchange(report, bar.took()))


def add_import(commands: Commands) -> None:
    """`gristmill import`"""
    parser = command(
        commands, "import", _run_import,
        "Make a store of another system's token files. Files are linked where the bytes are equal.",
        "train.bin --dtype uint16 --tokenizer gpt2 --out data/imported",
    )  # fmt: skip
    parser.add_argument(
        "paths", nargs="+", metavar="FILE", help="Files of tokens: .bin, .npy, Megatron's or llm.c's; a shard each."
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="The folder of the new store.")
    parser.add_argument("--tokenizer", required=True, metavar="NAME", help="The tokenizer that made the tokens.")
    parser.add_argument(
        "--eos", type=number(Count), metavar="ID", help="What ends a document, if not the tokenizer's own EOS."
    )
    parser.add_argument("--dtype", help="The type of files without a header: uint16, uint32, ...")
    parser.add_argument(
        "--boundaries",
        choices=("auto", "eos"),
        default="auto",
        help="Find documents by the files' own index where there is one (auto, the default), or by EOS alone.",
    )
    parser.add_argument(
        "--split", default="train", choices=("train", "val"), help="The split that the tokens become; train by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")


def _run_import(chosen: argparse.Namespace) -> None:
    from gristmill.importing import import_tokens
    from gristmill.show.exchange import show_exchange

    options = {name: getattr(chosen, name) for name in ("eos", "dtype", "boundaries", "overwrite")}
    with progress_bar(chosen) as bar:
        report = import_tokens(chosen.paths, chosen.out, chosen.tokenizer, split=chosen.split, progress=bar, **options)
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_exchange(report, bar.took()))
