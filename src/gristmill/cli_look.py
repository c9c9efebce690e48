"""The commands that look at what is there: inspect, verify."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gristmill.cli_options import command, foreign_options, json_option, progress_bar
from gristmill.core.errors import ConfigError


def add_inspect(commands: Any) -> None:
    """`gristmill inspect`"""
    parser = command(commands, "inspect", _run_inspect, "What is in a store, a plan or a checkpoint.")
    parser.add_argument("path", metavar="PATH", help="store folder, token file, plan JSON or checkpoint JSON")
    parser.add_argument("--doc", metavar="ID", help="a document: where it is in a store, when a plan shows it")
    parser.add_argument("--step", type=int, metavar="N", help="a plan's step: which documents are in it")
    parser.add_argument("--until", type=int, metavar="N", help="look this far into a plan; default its end")
    parser.add_argument("--plan", metavar="FILE", help="with a checkpoint: the plan that it must belong to")
    foreign_options(parser)
    json_option(parser)


def _run_inspect(chosen: argparse.Namespace) -> None:
    from gristmill.show.document import show_document
    from gristmill.show.plan import show_json_file
    from gristmill.show.store import show_store, show_tokens
    from gristmill.store.opening import is_sharded_bin, open_store

    path = Path(chosen.path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist.")
    if path.suffix == ".json" and path.name != "manifest.json" and path.is_file():
        show_json_file(path, chosen)
        return
    path = path.parent if path.name == "manifest.json" else path
    for name in ("step", "until", "plan"):
        if getattr(chosen, name) is not None:
            raise ConfigError(f"--{name} asks about a plan or a checkpoint: give its JSON file instead of a store.")
    if chosen.doc is not None:
        show_document(path, open_all(path, chosen.dtype, chosen.eos), chosen.doc, chosen.json)
    elif path.is_dir() and not is_sharded_bin(path):
        show_store(path, open_store, as_json=chosen.json)
    else:
        show_tokens(open_store(path, chosen.dtype, chosen.eos), chosen.json)


def open_all(path: Path, dtype: str | None, eos: int | None) -> list[Any]:
    """The store at `path`; a root gives both of its splits."""
    from gristmill.store.manifest import MANIFEST, SPLITS
    from gristmill.store.opening import open_split, open_store

    if (path / MANIFEST).exists():
        return [open_split(path, split) for split in SPLITS]
    return [open_store(path, dtype, eos)]


def add_verify(commands: Any) -> None:
    """`gristmill verify`"""
    parser = command(commands, "verify", _run_verify, "Check every checksum, count and boundary of a store.")
    parser.add_argument("path", metavar="DIR", help="a store, or one of its splits")
    json_option(parser)


def _run_verify(chosen: argparse.Namespace) -> int:
    from gristmill.show.terminal import print_json
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
