"""Addresses where a path is taken: one sentence that says what to do, before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.places.door import as_addresses, place_at
from gristmill.store.exchange import join
from gristmill.store.export import export_store
from gristmill.store.importing import import_store
from gristmill.store.verify import verify
from gristmill.testing import tiny_store
from gristmill.tokenize.tokenizer import load_tokenizer

AWAY = "s3://bucket/corpus"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("s3://bucket/x", "s3://bucket/x is an address, and Gristmill reads and writes local files only, so far: copy "
         "it to a disk of this machine (`aws s3 sync s3://bucket/x DIR`) or mount it, and give the local path."),
        ("gs://bucket/x", "gcloud storage cp -r gs://bucket/x"),
        ("hf://datasets/a/b", "hf download"),
        ("https://host/a.jsonl", "curl -O https://host/a.jsonl"),
        ("abfss://c@a/x", "copy it to a disk of this machine or"),
        ("S3://bucket/x", "s3://bucket/x is an address"),
        (Path("s3://bucket/x"), "s3://bucket/x is an address"),
        ("file:///data/x", "give the path alone, /data/x"),
        ("pipe:aws s3 cp s3://bucket/x -", "run it, and give the file"),
    ],
    ids=str,
)  # fmt: skip
def test_each_kind_of_address_gets_the_sentence_that_fits(given: str | Path, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        place_at(given)
    assert said in str(error.value)


@pytest.mark.parametrize("given", ["raw/web", "/data/x", "C:/data", "web=raw", "a:b", "", "x::y"])
def test_what_is_a_local_path_passes(given: str) -> None:
    place_at(given)


def test_a_file_of_this_very_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    place_at("s3://bucket")


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, Any]:
    tiny_store(tmp_path / "bare", shards=1)
    (tmp_path / "a.txt").write_text("text")
    gm.prepare(gm.Recipe(str(tmp_path / "own"), [{"name": "a", "paths": [str(tmp_path / "a.txt")]}], tokenizer="byte"))  # type: ignore[list-item]
    return {"own": tmp_path / "own", "bare": tmp_path / "bare" / "part-0.bin", "text": str(tmp_path / "a.txt")}


DOORS: dict[str, Callable[[dict[str, Any]], object]] = {
    "open": lambda at: gm.open(AWAY),
    "open one of a list": lambda at: gm.open([at["own"], f"{AWAY}-{{0..3}}.bin"]),
    "open a pattern": lambda at: gm.open(f"{at['bare']}::{AWAY}"),
    "index_dir": lambda at: gm.open(at["own"], index_dir=AWAY),
    "a source": lambda at: gm.dry_run(gm.Recipe("o", [{"name": "a", "paths": [f"{AWAY}/*.jsonl"]}])),  # type: ignore[list-item]
    "out": lambda at: gm.Recipe(AWAY, [{"name": "a", "paths": [at["text"]]}]),  # type: ignore[list-item]
    "a recipe": lambda at: gm.prepare(f"{AWAY}.yaml"),
    "work": lambda at: gm.RunOptions(work=AWAY),
    "save_index": lambda at: gm.RunOptions(save_index=AWAY),
    "a plan": lambda at: gm.load_plan(f"{AWAY}.json"),
    "a plan's file": lambda at: gm.Plan({"a": gm.open(at["own"])}, seq_len=2, batch_size=1).save(AWAY),
    "export from": lambda at: export_store(AWAY, "npy", "o"),
    "export to": lambda at: export_store(at["own"], "npy", AWAY),
    "import from": lambda at: import_store([AWAY], "o", eos=256, vocab_size=257),
    "import to": lambda at: import_store([at["bare"]], AWAY, eos=256, vocab_size=257, dtype="uint16"),
    "join from": lambda at: join([at["own"], AWAY], "o"),
    "join to": lambda at: join([at["own"]], AWAY),
    "verify": lambda at: verify(Path(AWAY)),
    "a tokenizer": lambda at: load_tokenizer(f"{AWAY}/tokenizer.json"),
    "learn from": lambda at: gm.train_tokenizer([AWAY], "o"),
    "learn to": lambda at: gm.train_tokenizer([at["text"]], AWAY),
}


@pytest.mark.parametrize("door", DOORS)
def test_wherever_a_path_is_taken_an_address_is_refused_and_nothing_written(
    stores: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"s3://bucket/corpus.* is an address"):
        DOORS[door](stores)
    assert not (tmp_path / "s3:").exists() and not (tmp_path / "o").exists()


def test_one_path_and_several_are_a_list() -> None:
    assert as_addresses("paths", "a.bin") == [Path("a.bin")]
    assert as_addresses("paths", Path("a.bin")) == [Path("a.bin")]
    assert as_addresses("paths", ("a", Path("b"))) == [Path("a"), Path("b")]


@pytest.mark.parametrize("value", [None, 7, b"a", "", ["a", None], ["a", ""], {"a": 1}, "a\0b"])
def test_what_names_no_file_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"(paths|Each of paths) must be a path"):
        as_addresses("paths", value)
