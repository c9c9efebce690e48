"""A store and its funnel; token files of other systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gristmill.show.terminal import print_json, table
from gristmill.store.manifest import MANIFEST, SPLITS, read_manifest
from gristmill.store.reader import Store


def show_store(path: Path, open_store: Callable[..., Store], *, as_json: bool) -> None:
    """The figures of a store's splits and its funnel; `path` is the store or one of its splits."""
    root = path.parent if path.name in SPLITS and not (path / MANIFEST).exists() else path
    values = read_manifest(root)
    splits = {split: open_store(root / split) for split in SPLITS if split in values["splits"]}
    figures = {name: _split_figures(store) for name, store in splits.items()}
    if as_json:
        kept: tuple[str, ...] = ("dtype", "eos", "vocab_size", "tokenizer", "recipe", "funnel", "versions")
        compression = values.get("compression", "none")
        kept += ("split",) if "split" in values else ()
        print_json(
            {"path": str(root), "splits": figures, "compression": compression, **{key: values[key] for key in kept}}
        )
        return
    rows = [(name, *row.values()) for name, row in figures.items()]
    columns = ("split", "shards", "documents", "tokens", "fingerprint")
    table(f"{root}: {values['tokenizer']['name']} tokens, {values['dtype']}, EOS {values['eos']}", columns, rows)
    _show_funnel(values["funnel"])


def _show_funnel(funnel: Sequence[dict[str, Any]]) -> None:
    """What each stage left of a source, and why the rest went; a count that a stage does not have is left blank."""
    keys = ("stage", "source", "documents", "bytes", "tokens")
    rows = [[*(row.get(key, "") for key in keys), _reasons(row)] for row in funnel]
    if rows:
        table("funnel", (*keys, "dropped"), rows)


def _reasons(row: dict[str, Any]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in row.get("reasons", {}).items())


def _split_figures(store: Store) -> dict[str, Any]:
    return {
        "shards": store.num_shards,
        "documents": store.num_documents,
        "tokens": store.num_tokens,
        "fingerprint": store.fingerprint if store.num_shards else "",
    }


def show_tokens(store: Store, as_json: bool) -> None:
    """What is known of foreign files."""
    facts = {"path": store.describe(), "dtype": store.dtype.name, "eos": store.eos, "shards": store.num_shards,
             "tokens": store.num_tokens, "boundaries": store.facts.boundary or "none"}  # fmt: skip
    if store.facts.boundary:
        facts["documents"] = store.num_documents
    if as_json:
        print_json(facts)
    else:
        table(store.describe(), list(facts), [list(facts.values())])
