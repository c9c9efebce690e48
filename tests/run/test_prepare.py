"""What `prepare` makes of documents: tokens, shards, splits, and the counts of all that went in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.recipe import SourceOptions
from gristmill.store.verify import verify

Make = Callable[..., Path]


def manifest(root: Path) -> dict[str, Any]:
    return json.loads((root / "manifest.json").read_text())


def documents(root: Path, split: str = "train") -> list[Any]:
    store = gm.open(root / split)
    return [store.document(i) for i in range(store.num_documents)]


def funnel(root: Path) -> dict[tuple[str, str], int]:
    return {(row["stage"], row["source"]): row["documents"] for row in manifest(root)["funnel"]}


# Tokens


def test_every_text_comes_back_from_its_tokens(whole_store: Path, texts: list[str]) -> None:
    found = documents(whole_store)
    assert [document.text for document in found] == texts
    assert [document.id for document in found] == [f"web/{i:03d}.txt" for i in range(len(texts))]


def test_each_document_ends_with_the_only_eos_it_holds(whole_store: Path) -> None:
    eos = {"byte": 256, "gpt2": 50256}[whole_store.name]
    for document in documents(whole_store):
        assert np.flatnonzero(document.tokens == eos).tolist() == [len(document.tokens) - 1]


def test_byte_tokens_are_the_bytes(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\n".encode())
    root = make("out", tmp_path / "a.txt", val_fraction=0)
    assert np.fromfile(root / "train" / "shard-00000.bin", "<u2").tolist() == [0xC3, 0xA9, 10, 256]


def test_a_tokenizer_file_gives_the_tokens_of_the_tokenizer_it_came_from(
    make: Make, whole_store: Path, corpus: Path
) -> None:
    filed = make("filed", corpus, tokenizer=str(whole_store / "tokenizer.json"), val_fraction=0, tokens_per_shard=1000)
    assert gm.open(filed).fingerprint == gm.open(whole_store).fingerprint
    assert manifest(filed)["tokenizer"] == manifest(whole_store)["tokenizer"]


# Shards


def test_no_shard_is_over_its_limit_and_none_could_take_the_next_document(make: Make, corpus: Path) -> None:
    root = make("out", corpus, tokens_per_shard=500, val_fraction=0)
    shards = manifest(root)["splits"]["train"]["shards"]
    assert len(shards) > 8 and all(shard["tokens"] <= 500 for shard in shards)
    firsts = np.cumsum([0, *(shard["documents"] for shard in shards)])
    store = gm.open(root)
    for shard, following in zip(shards, firsts[1:-1].tolist(), strict=False):
        assert shard["tokens"] + len(store.document(following).tokens) > 500


def test_a_document_longer_than_a_shard_gets_one_of_its_own(make: Make, tmp_path: Path) -> None:
    for name, length in (("a", 10), ("b", 5000), ("c", 10), ("d", 10)):
        (tmp_path / f"{name}.txt").write_text("x" * length)
    root = make("out", tmp_path / "*.txt", tokens_per_shard=1000, val_fraction=0)
    shards = manifest(root)["splits"]["train"]["shards"]
    assert [(shard["documents"], shard["tokens"]) for shard in shards] == [(1, 11), (1, 5001), (2, 22)]
    assert not verify(root).faults


# Splits


def test_val_has_its_share_and_the_splits_are_a_partition(make: Make, tmp_path: Path) -> None:
    with open(tmp_path / "many.jsonl", "w") as file:
        file.writelines(json.dumps({"text": f"document {i}", "id": i}) + "\n" for i in range(4000))
    root = make("out", tmp_path / "many.jsonl", val_fraction=0.25)
    train, val = ({document.id for document in documents(root, split)} for split in ("train", "val"))
    assert train | val == {str(i) for i in range(4000)} and not train & val
    assert abs(len(val) - 1000) < 110  # four standard deviations


def test_equal_texts_fall_on_one_side_wherever_they_are(make: Make, tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"text {i % 50}"}) + "\n" for i in range(500)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    root = make("out", tmp_path / "*.jsonl", val_fraction=0.3)
    train, val = ({document.text for document in documents(root, split)} for split in ("train", "val"))
    assert train and val and not train & val


def test_another_seed_holds_out_other_documents(make: Make, corpus: Path) -> None:
    held = [{d.id for d in documents(make(f"s{seed}", corpus, val_fraction=0.3, seed=seed), "val")} for seed in (0, 1)]
    assert held[0] != held[1]


def test_a_fraction_of_0_gives_an_empty_val_without_a_note(make: Make, corpus: Path, notes: Any) -> None:
    root = make("out", corpus, val_fraction=0, notes=notes)
    assert gm.open(root / "val").num_tokens == 0 and (root / "val").is_dir()
    assert not notes.notes


# Inputs


def test_several_sources_keep_their_names(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n{"text": "c"}\n')
    sources = [SourceOptions("prose", [str(tmp_path / "a.txt")]), SourceOptions("code", [str(tmp_path / "b.jsonl")])]
    root = make("out", sources=sources, val_fraction=0)
    found = [(document.source, document.id) for document in documents(root)]
    assert found == [("prose", "prose/a.txt"), ("code", "code/b.jsonl@0"), ("code", "code/b.jsonl@14")]
    assert (funnel(root)["train", "prose"], funnel(root)["train", "code"]) == (1, 2)


def test_documents_carry_their_file_but_no_folder_of_the_machine(make: Make, corpus: Path) -> None:
    root = make("out", corpus)
    assert documents(root)[0].record["path"].endswith(".txt") and "/" not in documents(root)[0].record["path"]


def test_empty_documents_are_dropped_and_counted(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": "b"}\n{"text": ""}\n')
    (tmp_path / "empty.txt").write_text("")
    root = make("out", tmp_path / "a.jsonl", tmp_path / "empty.txt", val_fraction=0)
    assert [document.text for document in documents(root)] == ["b"]
    assert (funnel(root)["read", "web"], funnel(root)["empty", "web"], funnel(root)["train", "web"]) == (4, 1, 1)
    (row,) = [row for row in manifest(root)["funnel"] if row["stage"] == "empty"]
    assert (row["documents_in"], row["reasons"]) == (4, {"empty": 3})


@pytest.mark.parametrize("content", ["", '{"text": ""}\n', "\n\n"])
def test_input_without_text_is_an_error_and_no_store(make: Make, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(gm.SourceError, match="hold no text"):
        make("out", tmp_path / "a.jsonl")
    with pytest.raises(gm.StoreError, match=r"no manifest.json"):
        gm.open(tmp_path / "out")


def test_unreadable_documents_are_skipped_counted_by_source_and_named(make: Make, tmp_path: Path, notes: Any) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\nnot json\n')
    (tmp_path / "b.txt").write_bytes(b"\xff")
    sources = [SourceOptions("one", [str(tmp_path / "a.jsonl")]), SourceOptions("two", [str(tmp_path / "b.txt")])]
    root = make("out", sources=sources, on_error="skip", val_fraction=0, notes=notes)
    assert (funnel(root)["unreadable", "one"], funnel(root)["unreadable", "two"]) == (1, 1)
    (said,) = [note for note in notes.notes if note.startswith("2 documents could not be read")]
    assert "line 2" in said and "b.txt" in said


def test_a_link_to_nothing_is_a_file_that_cannot_be_read(make: Make, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    (tmp_path / "in" / "b.txt").symlink_to("gone")
    with pytest.raises(gm.SourceError, match=r"b.txt cannot be read \(a link to nothing\)"):
        make("out", tmp_path / "in")
    root = make("skipped", tmp_path / "in", on_error="skip", val_fraction=0)
    assert len(documents(root)) == 1 and sum(n for (stage, _), n in funnel(root).items() if stage == "unreadable") == 1
    with pytest.raises(gm.SourceError, match=r"b.txt cannot be read"):
        make("out", tmp_path / "in" / "a.txt", decontaminate={"paths": [str(tmp_path / "in")]})


def test_an_unreadable_document_ends_the_run_without_a_store(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\nnot json\n')
    with pytest.raises(gm.SourceError, match="line 2"):
        make("out", tmp_path / "a.jsonl")
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_each_stage_of_the_progress_ends_at_its_total(make: Make, corpus: Path, tmp_path: Path, notes: Any) -> None:
    (tmp_path / "b.jsonl").write_text('{"text": "' + "a" * 1000 + '"}\n' + '{"text": ""}\n' * 100)
    make("out", corpus, tmp_path / "b.jsonl", notes=notes, dedup=["exact", "lines", "near"])
    assert all(total == done for _, total, done in notes.stages) and len(notes.stages) > 5
    size = sum(path.stat().st_size for path in [*corpus.iterdir(), tmp_path / "b.jsonl"])
    assert {name: total for name, total, _ in notes.stages}["reading and filtering"] == size


# The output folder


def test_a_finished_store_is_kept_unless_overwrite_is_said(make: Make, corpus: Path) -> None:
    root = make("out", corpus)
    before = (root / "manifest.json").read_bytes()
    with pytest.raises(gm.ConfigError, match=r"already holds a store.*overwrite=True"):
        make("out", corpus, tokens_per_shard=100)
    assert (root / "manifest.json").read_bytes() == before and not verify(root).faults


def test_overwrite_leaves_nothing_of_the_old_store(make: Make, corpus: Path, tmp_path: Path) -> None:
    gm.index(gm.open(make("out", corpus, tokens_per_shard=100)), 16)
    again = make("out", corpus, overwrite=True)
    fresh = make("fresh", corpus)
    assert sorted(path.name for path in again.rglob("*")) == sorted(path.name for path in fresh.rglob("*"))
    assert not verify(again).faults


def test_files_that_are_not_of_a_store_are_never_removed(make: Make, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "out" / "train")
    with pytest.raises(gm.ConfigError, match=r"000.txt is no part of a store"):
        make("out", corpus, overwrite=True)
    assert len(list((tmp_path / "out" / "train").iterdir())) == len(list(corpus.iterdir()))


def test_an_output_below_the_input_is_not_read_back(make: Make, corpus: Path, notes: Any) -> None:
    make("corpus/store", corpus, overwrite=True)
    root = make("corpus/store", corpus, overwrite=True, notes=notes)
    assert funnel(root)["read", "web"] == 120
    assert any("not read as input" in note for note in notes.notes)


def test_an_output_that_is_a_file_is_refused(make: Make, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(gm.ConfigError, match="is a file"):
        make("out", corpus)
    assert (tmp_path / "out").read_text() == "mine"
