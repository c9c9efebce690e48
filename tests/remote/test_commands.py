"""Every command and every name of the library that takes a path, given addresses of a bucket to read and write."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.cli import main
from gristmill.places.door import place_at
from gristmill.places.remote import Remote
from gristmill.store import reader
from gristmill.store.export import FORMATS
from gristmill.store.manifest import Manifest
from gristmill.view.pages import Pages
from gristmill.view.subject import open_subject

THERE = "s3://corpus/commands"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw text and a store of it on disk, of GPT-2's tokens, which all formats know."""
    folder = tmp_path_factory.mktemp("here")
    rows = [{"id": f"d{j}", "text": f"a text number {j % 90} of many " * 9} for j in range(100)]
    (folder / "raw").mkdir()
    (folder / "raw" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = {"tokens_per_shard": 3000, "val_fraction": 0.1}
    gm.prepare({"out": str(folder / "store"), "sources": [{"name": "raw", "paths": [str(folder / "raw")]}],
                "tokenizer": "gpt2", "store": store}, options={"keep_dropped": True})  # fmt: skip
    return folder


@pytest.fixture
def there(proxy: Any, here: Path) -> Iterator[str]:
    """The same in the bucket, and nothing else; what is written is taken away again."""
    for path in sorted(here.rglob("*")):
        if path.is_file() and path.parent != here and not path.name.startswith("."):
            place_at(f"{THERE}/{path.relative_to(here).as_posix()}").copy(place_at(path))
    yield THERE
    proxy.begin()
    Remote.remove_all([f"{folder}/{name}" for folder, names in Remote(THERE).walk(links=False) for name in names])


def run(*arguments: str, code: int = 0) -> None:
    assert main([*arguments, "--json"]) == code


def same(one: str | Path, other: str | Path) -> bool:
    """Whether both folders hold the same bytes, but for what tells of a run."""

    def content(root: str) -> dict[str, bytes]:
        found = [f"{folder}/{name}" for folder, names in place_at(root).walk(links=False) for name in names]
        return {
            path.removeprefix(root): place_at(path).read()
            for path in found
            if not path.endswith(("run.json", "report.html"))
        }

    return content(str(one)) == content(str(other)) != {}


def test_prepare_from_and_to_addresses_by_options_and_by_a_recipe_that_lies_there(there: str, tmp_path: Path) -> None:
    options = ("--tokenizer", "byte", "--tokens-per-shard", "9000", "--val-fraction", "0.1")
    run("prepare", f"{there}/raw", "--out", f"{there}/new", *options, "--pack", "64")
    run("prepare", f"{there}/raw", "--out", str(tmp_path / "new"), *options, "--pack", "64")
    assert same(f"{there}/new", tmp_path / "new")
    recipe = {"out": f"{there}/again", "sources": [{"name": "raw", "paths": [f"{there}/raw"]}], "tokenizer": "byte"}
    place_at(f"{there}/recipe.yaml").write(json.dumps(recipe))
    run("prepare", "--recipe", f"{there}/recipe.yaml", "--dry-run")
    run("prepare", "--recipe", f"{there}/recipe.yaml")
    assert gm.verify(f"{there}/again").whole
    run("init", f"{there}/template.yaml")
    assert b"sources:" in place_at(f"{there}/template.yaml").read()
    run("init", f"{there}/template.yaml", code=2)


def test_a_tokenizer_is_trained_from_and_to_an_address_and_used_from_there(there: str, tmp_path: Path) -> None:
    for out in (f"{there}/tokenizer.json", str(tmp_path / "tokenizer.json")):
        run("train-tokenizer", f"{there}/raw", "--out", out, "--vocab-size", "300")
    assert place_at(f"{there}/tokenizer.json").read() == (tmp_path / "tokenizer.json").read_bytes()
    run("prepare", f"{there}/raw", "--out", f"{there}/own", "--tokenizer", f"{there}/tokenizer.json")
    assert gm.open(f"{there}/own/train").decode(gm.open(f"{there}/own/train").tokens(0, 9)).startswith("a text")


def test_what_only_looks_sees_the_same(there: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["inspect"], ["inspect", "--doc", "d7"], ["dropped"], ["dropped", "--rule", "exact"], ["verify"]):
        said = []
        for root in (f"{there}/store", str(here / "store")):
            run(command[0], root, *command[1:])
            said.append(capsys.readouterr().out.replace(root, ""))
        found, expected = (re.sub(r'"seconds": [^,}]*', "", text) for text in said)
        assert found == expected
    pages = []
    for root in (f"{there}/store", str(here / "store")):
        run("report", root)
        pages.append(place_at(f"{root}/report.html").read().decode().replace(root, ""))
    hidden = r"<dt>(made|took|host|workers|memory|python)</dt><dd>.*?</dd>"
    assert re.sub(hidden, "", pages[0]) == re.sub(hidden, "", pages[1])
    run("bench", f"{there}/store/train", "--seq-len", "64", "--batch-size", "2", "--seconds", "0.1")


def test_a_run_is_recorded_in_a_bucket_and_asked_there(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = gm.Plan({"raw": f"{there}/store/train"}, seq_len=32, batch_size=4, steps=40)
    high = {(seen.step, seen.row) for seen in plan.find("d7")}
    with gm.Loader(plan) as loader:
        loader.record(f"{there}/run/served.parquet")
        for step, _ in enumerate(loader):
            loader.record_loss([9.0 if (step, row) in high else 3.0 for row in range(4)])
    place_at(f"{there}/ids.txt").write("d7\n")
    for options in ([], ["--spikes"], ["--step", "3"], ["--exclude-step", "30", "--out", f"{there}/plan2.json"]):
        run("inspect", f"{there}/run", *options)
    run("watch", f"{there}/run")
    run("ledger", f"{there}/run", "--out", f"{there}/ledger.parquet", "--html", f"{there}/ledger.html")
    asked = ("--until", "40", "--ids", f"{there}/ids.txt", "--out", f"{there}/steps.parquet")
    run("ledger", f"{there}/plan2.json", *asked)
    assert gm.load_plan(f"{there}/plan2.json").skips.covers(30)
    assert place_at(f"{there}/ledger.html").read().startswith(b"<!doctype html>")
    assert pq.read_table(pa.BufferReader(place_at(f"{there}/steps.parquet").read()))["id"].to_pylist() == ["d7"]


def test_the_viewer_shows_the_same(there: str, here: Path) -> None:
    shown = []
    for root in (f"{there}/store", str(here / "store")):
        pages = Pages(open_subject(root))
        found = [pages.answer(name, {"n": "3", "id": "d7"}) for name in ("", "docs", "doc", "dropped", "find")]
        shown.append([(answer.status, answer.go_to, answer.html.replace(root, "")) for answer in found])
    assert shown[0] == shown[1] and shown[0][0][0] == 200


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_export_to_and_from_an_address(there: str, here: Path, tmp_path: Path, format: str) -> None:
    run("export", str(here / "store"), "--to", format, "--out", str(tmp_path / "here"))
    for source, out in (
        (f"{there}/store", f"{there}/exported"), (f"{there}/store", str(tmp_path / "from")),
        (str(here / "store"), f"{there}/to"),
    ):  # fmt: skip
        run("export", source, "--to", format, "--out", out)
        assert same(tmp_path / "here", out)
        run("export", source, "--to", format, "--out", out, code=2)
        run("export", source, "--to", format, "--out", out, "--overwrite")
        assert same(tmp_path / "here", out)


def test_import_from_and_to_an_address(there: str, here: Path, tmp_path: Path) -> None:
    shard = "store/train/shard-00000"
    for suffix in (".bin", ".idx"):
        shutil.copyfile(here / f"{shard}{suffix}", tmp_path / f"a{suffix}")
        place_at(f"{there}/a{suffix}").copy(place_at(tmp_path / f"a{suffix}"))
    for source, out in ((f"{there}/a.bin", f"{there}/imported"), (str(tmp_path / "a.bin"), f"{there}/up"),
                        (f"{there}/a.bin", str(tmp_path / "down"))):  # fmt: skip
        run("import", source, "--out", out, "--tokenizer", "gpt2", "--dtype", "uint16")
        assert gm.verify(out).whole
    assert same(f"{there}/imported", tmp_path / "down") and same(f"{there}/up", tmp_path / "down")


def test_a_token_file_of_a_bucket_is_imported_without_being_held_in_memory(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = np.arange(1, 3_000_001, dtype=np.int64) % 50_256
    tokens[999::1000] = 50_256
    tokens.astype("<u2").tofile(tmp_path / "a.bin")
    place_at(f"{there}/large.bin").write((tmp_path / "a.bin").read_bytes())
    read = Remote.read

    def little(self: Remote, start: int = 0, size: int = -1) -> bytes:
        data = read(self, start, size)
        assert len(data) < 1_000_000
        return data

    monkeypatch.setattr(Remote, "read", little)
    monkeypatch.setattr(reader, "_HELD_BYTES", 1_000_000)
    run("import", f"{there}/large.bin", "--out", str(tmp_path / "out"), "--tokenizer", "gpt2", "--dtype", "uint16")
    assert (tmp_path / "out" / "train" / "shard-00000.bin").read_bytes() == (tmp_path / "a.bin").read_bytes()


def test_stores_of_a_bucket_are_joined_there_and_not_with_those_of_a_disk(
    there: str, here: Path, tmp_path: Path
) -> None:
    run("prepare", f"{there}/raw", "--out", f"{there}/other", "--tokenizer", "gpt2", "--seed", "1")
    run("join", f"{there}/store", f"{there}/other", "--out", f"{there}/joined")
    assert gm.verify(f"{there}/joined").whole
    parts = [gm.open(f"{there}/{name}/train") for name in ("store", "other")]
    joined = gm.open(f"{there}/joined/train")
    assert joined.num_tokens == sum(part.num_tokens for part in parts)
    assert np.array_equal(joined.tokens(0, 500), parts[0].tokens(0, 500))
    run("join", str(here / "store"), f"{there}/other", "--out", f"{there}/mixed", code=2)
    run("join", str(here / "store"), f"{there}/other", "--out", str(tmp_path / "mixed"), code=2)


def test_a_pack_index_is_built_beside_a_store_in_a_bucket_and_served(there: str, here: Path) -> None:
    run("index", f"{there}/store/train", "--seq-len", "48")
    gm.index(gm.open(here / "store" / "train"), seq_len=48)
    assert place_at(f"{there}/store/train/pack-48.gmi").read() == (here / "store/train/pack-48.gmi").read_bytes()
    plans = [gm.Plan(gm.open(root), seq_len=48, batch_size=4, options={"cut": "pack"})
             for root in (f"{there}/store/train", here / "store" / "train")]  # fmt: skip
    for found, expected in zip(*(gm.Loader(plan) for plan in plans), strict=True):
        assert np.array_equal(found["input_ids"], expected["input_ids"])
    place_at(f"{there}/bare.bin").write(np.array([1, 2, 0, 3, 0], "<u2").tobytes())
    run("index", f"{there}/bare.bin", "--eos", "0", "--dtype", "uint16")
    assert gm.open(f"{there}/bare.bin", dtype="uint16").num_documents == 2


def test_a_recipe_that_lies_there_is_looked_at_as_a_stream_and_mixed_with_a_store(
    there: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = (f"out: {there}/new\nsources: [{{name: raw, paths: ['{there}/raw/*.jsonl']}}]\ndedup: none\n"
              "store: {val_fraction: 0}\n")  # fmt: skip
    place_at(f"{there}/recipe.yaml").write(recipe)
    run("stream", f"{there}/recipe.yaml", "--seq-len", "64", "--steps", "1000")
    assert json.loads(capsys.readouterr().out)["funnel"][0]["documents"] == 100
    mixed = []
    for root in (there, str(here)):
        stream = gm.stream_recipe({"out": "none", "sources": [{"name": "raw", "paths": [f"{root}/raw/*.jsonl"]}],
                                   "dedup": [], "store": {"val_fraction": 0.0}}, progress=False)  # fmt: skip
        sources = {"fresh": stream.chunk(32), "kept": gm.open(f"{root}/store/train")}
        mixed.append(gm.mix(sources, {"fresh": 0.5, "kept": 0.5}).batch(4, seed=1))
    one, other = (each.loader(keys="labels") for each in mixed)
    for step, (a, b) in enumerate(zip(one, other, strict=True), 1):
        assert all(np.array_equal(a[key], b[key]) for key in a)
        if step == 12:
            break
    again = mixed[1].loader(keys="labels")
    again.load_state_dict(one.state_dict())
    assert np.array_equal(next(iter(again))["labels"], next(iter(one))["labels"])
    one.close(wait=True)


def test_plans_are_saved_at_addresses_and_loaded_from_there(there: str) -> None:
    plan = gm.Plan(gm.open(f"{there}/store/train"), seq_len=48, batch_size=4)
    plan.save(f"{there}/plan.json")
    loaded = gm.load_plan(f"{there}/plan.json")
    assert loaded.fingerprint == plan.fingerprint
    assert np.array_equal(gm.Loader(loaded).batch(3)["input_ids"], gm.Loader(plan).batch(3)["input_ids"])
    for more in ([], ["--step", "2"], ["--doc", "d7"]):
        run("inspect", f"{there}/plan.json", *more)


def test_a_mix_is_written_to_an_address(there: str) -> None:
    made = gm.create_balanced_mix({"a": f"{there}/raw", "b": ["one text", "another"]}, {"a": 0.5, "b": 0.5}, 20,
                                  out=f"{there}/mix", tokenizer="byte")  # fmt: skip
    assert isinstance(made, Manifest) and gm.verify(f"{there}/mix").whole


def test_adapters_are_given_addresses(there: str, here: Path) -> None:
    from gristmill.adapters.local_files import create_dataloaders
    from gristmill.adapters.random_windows import GPTDataLoader

    windows = [GPTDataLoader({"block_size": 16, "batch_size": 2}, None, root) for root in
               (f"{there}/store", here / "store")]  # fmt: skip
    found, expected = (loader.get_batch("train") for loader in windows)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    pairs = [create_dataloaders(f"{root}/store/train/shard-00000.bin", f"{root}/store/val/shard-00000.bin",
                                max_length=16, batch_size=2, dtype="uint16") for root in (there, here)]  # fmt: skip
    for found_loader, expected_loader in zip(*pairs, strict=True):
        first, second = next(iter(found_loader)), next(iter(expected_loader))
        assert all(np.array_equal(first[key], second[key]) for key in second)
