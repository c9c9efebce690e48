"""The commands that move finished tokens: index, join, export, import."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gristmill.cli_options import command, foreign_options, json_option, progress_bar
from gristmill.core.errors import ConfigError


def add_index(commands: Any) -> None:
    """`gristmill index`"""
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


def add_join(commands: Any) -> None:
    """`gristmill join`"""
    parser = command(commands, "join", _run_join, "Several stores as one, tokens where they are.")
    parser.add_argument("paths", nargs="+", metavar="STORE", help="stores that stay in place; the order counts")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the new store")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished store")
    json_option(parser)


def _run_join(chosen: argparse.Namespace) -> None:
    from gristmill.show.store import show_store
    from gristmill.store.exchange import join
    from gristmill.store.opening import open_store

    join(chosen.paths, chosen.out, overwrite=chosen.overwrite)
    show_store(Path(chosen.out), open_store, as_json=chosen.json)


def add_export(commands: Any) -> None:
    """`gristmill export`"""
    parser = command(
        commands, "export", _run_export, "A store in another system's format, by links where bytes are equal."
    )
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    parser.add_argument(
        "--to", required=True, metavar="FORMAT", help="megatron, olmo, nanogpt, llmc, npy or sharded-bin"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="an empty folder")
    parser.add_argument("--overwrite", action="store_true", help="replace an older export")
    json_option(parser)


def _run_export(chosen: argparse.Namespace) -> None:
    from gristmill.show.exchange import show_exchange
    from gristmill.store.export import export_store

    report = export_store(Path(chosen.path), chosen.to, Path(chosen.out), overwrite=chosen.overwrite)
    show_exchange(report, chosen.json)


def add_import(commands: Any) -> None:
    """`gristmill import`"""
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
    from gristmill.show.exchange import show_exchange

    options = {name: getattr(chosen, name) for name in ("eos", "dtype", "boundaries", "overwrite")}
    with progress_bar(chosen) as bar:
        report = import_tokens(
            chosen.paths, chosen.out, chosen.tokenizer, split_name=chosen.split, progress=bar, **options
        )
    show_exchange(report, chosen.json)
