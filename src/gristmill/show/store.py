"""A store, or one of its splits; token files of other systems."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from gristmill.core.bar import Bar
from gristmill.places.door import place_at
from gristmill.show.funnel import show_funnel, show_split
from gristmill.show.terminal import facts, line, print_json, table
from gristmill.store.manifest import MANIFEST, SPLITS, load_manifest
from gristmill.store.opening import open_store
from gristmill.store.reader import Store

_SHOWN_KEYS = ("compression", "dtype", "eos", "vocab_size", "tokenizer", "recipe", "funnel", "versions")


def show_store(path: Path, as_json: bool, **more: Any) -> None:
    """The figures of a store and its funnel, or of one split alone; `more` goes into the JSON."""
    values = store_facts(path)
    if as_json:
        print_json({**values, **more})
        return
    rows = [(name, *row.values()) for name, row in values["splits"].items()]
    columns = ("split", "shards", "documents", "tokens", "fingerprint")
    packed = "" if values["compression"] == "none" else f", {values['compression']}"
    kind = f"{values['tokenizer']['name']} tokens, {values['dtype']}, EOS {values['eos']}{packed}"
    table(f"{values['path']}: {kind}", columns, rows)
    if path.name in values["splits"] and len(rows) == 1:
        show_split(values["funnel"])
    else:
        show_funnel(values["funnel"])


def show_made(root: Path, as_json: bool, bar: Bar) -> None:
    """A store that was just written: its figures, how long it took, and how to open it."""
    show_store(root, as_json, **bar.figures)
    if not as_json:
        manifest = load_manifest(root)
        tokens = sum(shard.tokens for shards in manifest.splits.values() for shard in shards)
        line(f"\nWrote {tokens:,} tokens {bar.took()}.")
        if any(row.get("reasons") or row["stage"] == "unreadable" for row in manifest.funnel):
            line(f"Look at what was dropped: gristmill dropped {shlex.quote(str(root))}")
        line(f'Open it in Python: gristmill.open("{root / "train"}")')


def store_facts(path: Path) -> dict[str, Any]:
    """What is known of a store or a split: figures, recipe, funnel, versions."""
    split = path.name if path.name in SPLITS and not place_at(path / MANIFEST).exists() else None
    root = path.parent if split else path
    manifest = load_manifest(root)
    shown = {key: getattr(manifest, key) for key in _SHOWN_KEYS}
    if manifest.split:
        shown["split"] = manifest.split
    if split:
        shown["funnel"] = [row for row in manifest.funnel if row["stage"] == split]
    splits = {name: _split_figures(open_store(root / name)) for name in SPLITS
              if name in manifest.splits and split in (None, name)}  # fmt: skip
    return {"path": str(path), "splits": splits, **shown}


def _split_figures(store: Store) -> dict[str, Any]:
    return {
        "shards": store.num_shards,
        "documents": store.num_documents,
        "tokens": store.num_tokens,
        "fingerprint": store.fingerprint if store.num_shards else "",
    }


def show_tokens(store: Store, as_json: bool) -> None:
    """What is known of foreign files."""
    known = {"path": store.describe(), "dtype": store.dtype.name, "eos": store.eos, "shards": store.num_shards,
             "tokens": store.num_tokens, "boundaries": store.facts.boundary or "none"}  # fmt: skip
    if store.facts.boundary:
        known["documents"] = store.num_documents
    if as_json:
        print_json(known)
    else:
        facts(store.describe(), known)
