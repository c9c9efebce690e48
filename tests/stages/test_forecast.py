"""What a dry run says of documents, tokens and shards is within 20 % of what a run makes, however files are packed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from gristmill.cli import main
from gristmill.recipe import Recipe
from gristmill.run import dry_run, prepare
from gristmill.stages import sampling

WORDS = ["grain", "mill", "stone", "water", "wheel", "flour", "miller", "sieve", "bran", "husk", "river", "wind"]


def texts(count: int = 3000) -> Iterator[str]:
    """Documents of very different lengths, later ones longer; some of them such as rules drop."""
    rng = random.Random(3)
    for i in range(count):
        length = int(rng.lognormvariate(4 + i / count, 1))
        yield " ".join(rng.choices(WORDS, k=length)) + f" {i}." if rng.random() < 0.8 else f"short {i}"


def lines() -> bytes:
    return "".join(json.dumps({"text": text, "more": "x" * 60}) + "\n" for text in texts()).encode()


def as_parquet(path: Path) -> None:
    pq.write_table(pa.table({"text": list(texts())}), path, row_group_size=500, compression="zstd")


def as_arrow(path: Path) -> None:
    table = pa.table({"text": list(texts())})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)


def as_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for i, text in enumerate(texts()):
            data = text.encode()
            info = tarfile.TarInfo(f"{i:06d}.txt")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


PACKED: dict[str, Callable[[Path], Any]] = {
    "a.jsonl": lambda path: path.write_bytes(lines()),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(lines())),
    "a.jsonl.zst": lambda path: path.write_bytes(zstandard.compress(lines())),
    "a.jsonl.bz2": lambda path: path.write_bytes(bz2.compress(lines())),
    "a.jsonl.xz": lambda path: path.write_bytes(lzma.compress(lines())),
    "a.txt.gz": lambda path: path.write_bytes(gzip.compress("\n\n".join(texts()).encode())),
    "a.parquet": as_parquet,
    "a.arrow": as_arrow,
    "a.tar": as_tar,
    "a.tgz": as_tar,
}


def recipe(tmp_path: Path, *paths: Path, **changes: Any) -> Recipe:
    sources = [{"name": path.name.partition(".")[0], "paths": [str(path)], "documents": "paragraph"} for path in paths]
    values = {"tokenizer": "byte", "filters": [{"length": {"min_chars": 20}}], "dedup": (),
              "store": {"tokens_per_shard": 100_000, "val_fraction": 0.1}, **changes}  # fmt: skip
    return Recipe(str(tmp_path / "out"), sources, **values)  # type: ignore[arg-type]


def check(made: Recipe, **options: Any) -> dict[str, Any]:
    """Compare a dry run with the run."""
    told = dry_run(made, **options)
    splits = prepare(made).splits
    real = {
        "documents": sum(shard.documents for shards in splits.values() for shard in shards),
        "tokens": sum(shard.tokens for shards in splits.values() for shard in shards),
        "train_tokens": sum(shard.tokens for shard in splits["train"]),
        "shards": sum(len(shards) for shards in splits.values()),
    }
    for name, value in real.items():
        assert abs(told["estimate"][name] / value - 1) < 0.2, (name, told["estimate"], real)
        low, high = told["range"][name]
        assert low <= told["estimate"][name] <= high and 0.8 * low <= value <= 1.2 * high
    return told


@pytest.mark.parametrize("name", PACKED)
def test_the_packing_of_a_file_is_seen_through(tmp_path: Path, name: str) -> None:
    PACKED[name](tmp_path / name)
    told = check(recipe(tmp_path, tmp_path / name))
    low, high = told["range"]["seconds"]
    assert 0 < low <= told["estimate"]["seconds"] <= high


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.jsonl.bz2", "a.tgz"])
def test_a_file_that_is_only_begun_is_judged_by_what_its_beginning_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Two like halves: the first alone is read.
    monkeypatch.setattr(sampling, "_ENOUGH_BYTES", 1)
    PACKED[name](tmp_path / name)
    told = dry_run(recipe(tmp_path, tmp_path / name))["sources"][0]
    size = sum(len(text.encode()) for text in texts())
    assert told["documents"] == pytest.approx(3000, rel=0.7) and told["text_bytes"] == pytest.approx(size, rel=0.7)


def test_sources_of_different_packing_are_judged_apart(tmp_path: Path) -> None:
    PACKED["a.jsonl.zst"](tmp_path / "packed.jsonl.zst")
    PACKED["a.jsonl"](tmp_path / "plain.jsonl")
    told = check(recipe(tmp_path, tmp_path / "packed.jsonl.zst", tmp_path / "plain.jsonl"), sample=400)
    assert [row["documents"] for row in told["sources"]] == [3000, 3000]


@pytest.mark.parametrize("unit", ["documents", "tokens"])
def test_a_mix_has_its_target(tmp_path: Path, unit: str) -> None:
    for name in ("a", "b"):
        PACKED["a.jsonl"](tmp_path / f"{name}.jsonl")
    mix = {"weights": {"a": 0.3, "b": 0.7}, "target": {"documents": 4000, "tokens": 800_000}[unit], "unit": unit}
    check(recipe(tmp_path, tmp_path / "a.jsonl", tmp_path / "b.jsonl", mix=mix))


def test_documents_larger_than_a_shard_have_shards_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(300)))
    store = {"tokens_per_shard": 1000, "val_fraction": 0.1}
    check(recipe(tmp_path, tmp_path / "a.jsonl", store=store))


def test_one_file_has_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(texts()))
    store = {"tokens_per_shard": 100_000, "val_fraction": 0.1}
    made = Recipe(str(tmp_path / "out"), [{"name": "a", "paths": [str(tmp_path / "a.txt")]}], tokenizer="byte",
                  store=store, clean=None)  # type: ignore[list-item, arg-type]  # fmt: skip
    told = dry_run(made)
    assert told["estimate"]["documents"] == 1 and told["estimate"]["shards"] == 2
    real = prepare(made)
    assert sum(len(shards) for shards in real.splits.values()) == 2


def test_the_sample_lies_evenly_in_what_was_read(tmp_path: Path) -> None:
    PACKED["a.jsonl"](tmp_path / "a.jsonl")
    seen = dry_run(recipe(tmp_path, tmp_path / "a.jsonl"), sample=100)["sample"]
    whole = np.mean([len(text.encode()) for text in texts()])
    assert seen["documents"] == 100 and 0.5 * whole < seen["bytes_read"] / 100 < 2 * whole


def made(out: Path, corpus: Path, **options: Any) -> Recipe:
    sources: Any = [{"name": "all", "paths": [str(corpus)]}]
    filters: Any = [{"length": {"min_chars": 100}}, {"fineweb": {}}, {"c4": {}}]
    return Recipe(str(out), sources, filters=filters, tokenizer="byte", **options)


def test_the_estimate_of_a_sample_that_is_everything_is_close(tmp_path: Path, corpus: Path) -> None:
    recipe = made(tmp_path / "out", corpus, dedup=(), store={"val_fraction": 0})
    forecast = dry_run(recipe, sample=10_000)
    assert not (tmp_path / "out").exists()
    manifest = prepare(recipe)
    tokens = sum(entry.tokens for entries in manifest.splits.values() for entry in entries)
    assert forecast["estimate"]["tokens"] == tokens and forecast["range"]["tokens"] == [tokens, tokens]
    assert forecast["steps"] == ["clean", "length", "fineweb", "c4", "tokenize: byte"]
    in_order = {row["rule"]: row["in_order"] for row in forecast["sample"]["rules"]}
    found = {row["stage"]: sum(row["reasons"].values()) for row in manifest.funnel if row["stage"] in in_order}
    assert in_order == found


def test_rules_are_judged_alone_and_together(tmp_path: Path, corpus: Path) -> None:
    rows = {row["rule"]: row for row in dry_run(made(tmp_path / "out", corpus), sample=10_000)["sample"]["rules"]}
    assert rows["fineweb"]["alone"] > rows["fineweb"]["in_order"] > 0  # length drops the same texts before
    for row in rows.values():
        assert row["only"] <= row["in_order"] <= row["alone"] and row["in_order"] == sum(row["reasons"].values())


def test_rules_of_one_name_are_judged_apart(tmp_path: Path, corpus: Path) -> None:
    filters: Any = [{"length": {"min_chars": 100}}, {"length": {"min_chars": 400}}]
    sources: Any = [{"name": "all", "paths": [str(corpus)]}]
    seen = dry_run(Recipe(str(tmp_path / "out"), sources, filters=filters, tokenizer="byte"), sample=10_000)
    first, second = seen["sample"]["rules"]
    assert [first["rule"], second["rule"]] == seen["steps"][1:3] == ["length", "length-2"]
    assert second["alone"] == first["alone"] + second["in_order"] and second["only"] == second["in_order"] > 0
    assert first["only"] == 0 < first["alone"] == first["in_order"]


def test_the_command_prints_the_plan(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path / "out"), "--tokenizer", "byte"]
    assert main(["prepare", str(corpus), *options, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "steps: clean > dedup: exact > tokenize: byte" in said and "estimate" in said
    assert main(["prepare", str(corpus), *options, "--sample", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sample"]["documents"] >= 50
    assert not (tmp_path / "out").exists()


def test_init_writes_a_recipe_that_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gristmill.recipe import read_recipe

    path = tmp_path / "recipe.yaml"
    assert main(["init", str(path)]) == 0
    assert read_recipe(path) == Recipe("data/corpus", [{"name": "web", "paths": ["raw/web/*.jsonl.zst"]}])  # type: ignore[list-item]
    assert main(["init", str(path)]) == 2 and "exists" in capsys.readouterr().err
