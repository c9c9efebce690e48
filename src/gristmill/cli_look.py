"""The commands that look at what is there, and at what is not: inspect, dropped, verify."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gristmill.cli_options import command, foreign_options, number, progress_bar
from gristmill.core.errors import ConfigError
from gristmill.core.values import Count, Positive
from gristmill.places.door import place_at


def add_inspect(commands: Any) -> None:
    """`gristmill inspect`"""
    parser = command(
        commands, "inspect", _run_inspect,
        "Show what is in a store, a split, a token file, a plan or a checkpoint. A store shows its figures and its "
        "funnel: what each step left of the documents, and why the others went.",
        "data/corpus", "data/corpus --doc web/a.jsonl:12", "plan.json --step 48211", "checkpoint.json --plan plan.json",
    )  # fmt: skip
    parser.add_argument(
        "path", metavar="PATH",
        help="A store's folder or one of its splits, a token file or several ('t-{00..15}.bin'), or the JSON of a plan "
        "or a checkpoint.",
    )  # fmt: skip
    parser.add_argument("--doc", metavar="ID", help="Show a document: where a store has it, or when a plan serves it.")
    parser.add_argument(
        "--step", type=number(Count), metavar="N", help="Show which documents are in this step of a plan."
    )
    parser.add_argument(
        "--until", type=number(Positive), metavar="N", help="Look this far into a plan; by default to its end."
    )
    parser.add_argument("--plan", metavar="FILE", help="Check that a checkpoint belongs to this plan.")
    foreign_options(parser)


def _run_inspect(chosen: argparse.Namespace) -> None:
    from gristmill.show.asking import refuse_options
    from gristmill.show.plan import show_json_file
    from gristmill.show.store import show_tokens
    from gristmill.store.opening import named_paths, open_store

    path, *others = named_paths(chosen.path)
    if others:
        refuse_options(chosen, "several token files", ("dtype", "eos"))
        show_tokens(open_store(chosen.path, chosen.dtype, chosen.eos), chosen.json)
    elif existing(str(path)).suffix == ".json" and path.name != "manifest.json" and place_at(path).is_file():
        show_json_file(path, chosen)
    else:
        _show_store(path.parent if path.name == "manifest.json" else path, chosen)


def _show_store(path: Path, chosen: argparse.Namespace) -> None:
    from gristmill.show.asking import refuse_options
    from gristmill.show.document import show_document
    from gristmill.show.store import show_store, show_tokens
    from gristmill.store.opening import is_sharded_bin, open_store

    own = place_at(path).is_folder() and not is_sharded_bin(path)
    refuse_options(chosen, "a store" if own else "no plan", ("doc",) if own else ("doc", "dtype", "eos"))
    if chosen.doc is not None:
        show_document(path, open_all(path, chosen.dtype, chosen.eos), chosen.doc, chosen.json)
    elif own:
        show_store(path, chosen.json)
    else:
        show_tokens(open_store(path, chosen.dtype, chosen.eos), chosen.json)


def open_all(path: Path, dtype: str | None, eos: int | None) -> list[Any]:
    """The store at `path`; a root gives both of its splits."""
    from gristmill.store.manifest import MANIFEST, SPLITS
    from gristmill.store.opening import open_split, open_store

    if place_at(path / MANIFEST).exists():
        return [open_split(path, split) for split in SPLITS]
    return [open_store(path, dtype, eos)]


def add_dropped(commands: Any) -> None:
    """`gristmill dropped`"""
    parser = command(
        commands, "dropped", _run_dropped,
        "Show what is not in a store, and why: how many documents each rule dropped for which reason, with examples. "
        "Their texts are shown if the store was prepared with --keep-dropped.",
        "data/corpus", "data/corpus --rule gopher_quality --examples 5", "data/corpus --reason too_few_chars --json",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store that `gristmill prepare` made.")
    parser.add_argument("--rule", metavar="R", help="Show only what this rule (or step) dropped.")
    parser.add_argument("--reason", metavar="R", help="Show only what went for this reason.")
    parser.add_argument("--source", metavar="S", help="Show only what went from this source.")
    parser.add_argument(
        "--examples", type=number(Positive), metavar="N",
        help="Show so many of each reason; 1 by default, and 3 where a rule, reason or source is named.",
    )  # fmt: skip


def _run_dropped(chosen: argparse.Namespace) -> None:
    from gristmill.show.dropped import show_dropped
    from gristmill.stages.dropped import KEYS, dropped

    asked = {key: getattr(chosen, key) for key in KEYS}
    wanted = chosen.examples if chosen.examples is not None else 3 if any(asked.values()) else 1
    show_dropped(chosen.path, dropped(existing(chosen.path), asked, wanted), chosen.json)


def existing(given: str) -> Path:
    """A path that must be there."""
    path = Path(given)
    if not place_at(given).exists():
        raise ConfigError(f"{path} does not exist.")
    return path


def add_verify(commands: Any) -> None:
    """`gristmill verify`"""
    parser = command(
        commands, "verify", _run_verify,
        "Check every checksum, count and boundary of a store. Each fault is named, and the exit code is then 1.",
        "data/corpus",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store, or one of its splits.")


def _run_verify(chosen: argparse.Namespace) -> int:
    from gristmill.show.terminal import line, print_json, table
    from gristmill.store.verify import verify

    with progress_bar(chosen) as bar:
        verdict = verify(chosen.path, progress=bar)
    if chosen.json:
        print_json({**vars(verdict), **bar.figures})
    else:
        rows = [(kind, row["files"], row["bytes"], row["by"]) for kind, row in verdict.covered.items()]
        table("", ("kind", "files", "bytes", "every byte is covered by"), rows)
        for name in verdict.unlisted:
            line(f"{name} is covered by no sum: it is no part of the store, or an older version made it.")
        counts = f"{verdict.shards:,} shards, {verdict.documents:,} documents, {verdict.tokens:,} tokens"
        line(f"{chosen.path}: {counts}: {f'faults: {len(verdict.faults):,}' if verdict.faults else 'whole'}")
        line(f"Verified {bar.took()}.")
    for fault in verdict.faults:
        print(f"gristmill: {fault}", file=sys.stderr)
    return 1 if verdict.faults else 0
