"""The figures of a store are those of its manifest; a split has its own alone."""

from __future__ import annotations

import json
from pathlib import Path

import gristmill as gm
from gristmill.figures.store import store_figures, token_figures
from gristmill.testing import tiny_store


def test_a_store_has_the_figures_of_both_splits_and_its_manifest(store: Path) -> None:
    figures, manifest = store_figures(store), json.loads((store / "manifest.json").read_text())
    train, val = gm.open(store / "train"), gm.open(store / "val")
    assert figures.tokens == train.num_tokens + val.num_tokens
    assert figures.splits["val"].documents == val.num_documents
    assert figures.splits["train"].fingerprint == train.fingerprint
    assert figures.manifest.funnel == manifest["funnel"] and figures.to_dict()["recipe"] == manifest["recipe"]
    assert figures.steps.kept == (40, 41) and figures.has_dropped and not figures.of_one_split


def test_a_split_has_its_own_rows_alone(store: Path) -> None:
    figures = store_figures(store / "val")
    assert list(figures.splits) == ["val"] == [row["stage"] for row in figures.manifest.funnel]
    assert figures.of_one_split and not figures.has_dropped


def test_how_val_was_taken_is_said_only_where_hashes_could_not_give_it_its_share(store: Path, tmp_path: Path) -> None:
    assert "split" not in store_figures(store).to_dict()
    (tmp_path / "one.txt").write_text("One document alone. " * 200)
    sources = [{"name": "text", "paths": [str(tmp_path / "one.txt")]}]
    gm.prepare({"out": str(tmp_path / "out"), "sources": sources, "tokenizer": "byte"}, progress=False)
    assert store_figures(tmp_path / "out").to_dict()["split"]


def test_token_files_have_documents_where_their_boundaries_are_known(tmp_path: Path) -> None:
    known = tiny_store(tmp_path / "bare", shards=1)
    figures = token_figures(known)
    assert figures["documents"] == known.num_documents and figures["tokens"] == known.num_tokens
    bare = token_figures(gm.open(tmp_path / "bare" / "part-0.bin", dtype="uint16"))
    assert bare["boundaries"] == "none" and "documents" not in bare
