"""Addresses where a path is taken: one sentence that says what to do, before anything is read or written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.places.door import address_of, as_addresses, place_at
from gristmill.store.exchange import join
from gristmill.store.export import export_store
from gristmill.store.importing import import_store
from gristmill.store.verify import verify
from gristmill.testing import tiny_store
from gristmill.tokenize.tokenizer import load_tokenizer

UNKNOWN = "hf://bucket/corpus"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ftp://host/x", "ftp://host/x is an address of a kind that Gristmill does not read; it reads those that begin "
         "with s3, gs, az, http, https, file: copy it to a disk of this machine or mount it, and give the local path."),
        ("hf://datasets/a/b", "hf download"),
        ("HF://bucket/x", "hf://bucket/x is an address"),
        (Path("hf://bucket/x"), "hf://bucket/x is an address"),
        ("file://other/data/x", "a file of the machine other"),
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


@pytest.mark.parametrize(("given", "path"), [
    ("file:///data/x", "/data/x"), ("file://localhost/data/x", "/data/x"), ("FILE:/data/x", "/data/x"),
    ("file:///a%20b/%C3%A9%25", "/a b/é%"), ("file:///%FF", "/\udcff"), (Path("file:///data/x"), "/data/x"),
    ("file:///data/*.txt", "/data/*.txt"),
])  # fmt: skip
def test_a_file_address_is_the_path_that_it_spells(given: str | Path, path: str) -> None:
    assert place_at(given).path == path and os.fspath(address_of(given)) == path


def test_file_addresses_are_taken_wherever_paths_are(stores: dict[str, Any], tmp_path: Path) -> None:
    here = tmp_path.as_uri()
    (tmp_path / "raw").mkdir()
    for i in range(3):
        (tmp_path / "raw" / f"{i}.txt").write_text(f"text {i} " * 20)
    for given in ("raw", "raw/*.txt", "raw/{0..2}.txt"):
        source: Any = {"name": "a", "paths": [f"{here}/{given}"]}
        made = gm.prepare({"out": f"{here}/o", "sources": [source], "tokenizer": "byte"}, overwrite=True)
        assert (
            made.splits
            == gm.prepare(
                {
                    "out": str(tmp_path / "p"),
                    "sources": [{**source, "paths": [str(tmp_path / "raw")]}],
                    "tokenizer": "byte",
                },
                overwrite=True,
            ).splits
        )
    assert gm.verify(f"{here}/o").whole and gm.open(f"{here}/o").num_tokens == gm.open(tmp_path / "o").num_tokens
    gm.Plan(gm.open(f"{here}/o"), seq_len=2, batch_size=1).save(f"{here}/plan.json")
    assert gm.load_plan(f"{here}/plan.json").fingerprint == gm.load_plan(tmp_path / "plan.json").fingerprint


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


DOORS: dict[str, Callable[[dict[str, Any], str], object]] = {
    "open": lambda at, away: gm.open(away),
    "open one of a list": lambda at, away: gm.open([at["own"], f"{away}-{{0..3}}.bin"]),
    "open a pattern": lambda at, away: gm.open(f"{at['bare']}::{away}"),
    "index_dir": lambda at, away: gm.open(at["own"], index_dir=away),
    "a source": lambda at, away: gm.dry_run(gm.Recipe("o", [{"name": "a", "paths": [f"{away}/*.jsonl"]}])),  # type: ignore[list-item]
    "out": lambda at, away: gm.Recipe(away, [{"name": "a", "paths": [at["text"]]}]),  # type: ignore[list-item]
    "a recipe": lambda at, away: gm.prepare(f"{away}.yaml"),
    "work": lambda at, away: gm.RunOptions(work=away),
    "save_index": lambda at, away: gm.RunOptions(save_index=away),
    "a plan": lambda at, away: gm.load_plan(f"{away}.json"),
    "a plan's file": lambda at, away: gm.Plan({"a": gm.open(at["own"])}, seq_len=2, batch_size=1).save(away),
    "export from": lambda at, away: export_store(away, "npy", "o"),
    "export to": lambda at, away: export_store(at["own"], "npy", away),
    "import from": lambda at, away: import_store([away], "o", eos=256, vocab_size=257),
    "import to": lambda at, away: import_store([at["bare"]], away, eos=256, vocab_size=257, dtype="uint16"),
    "join from": lambda at, away: join([at["own"], away], "o"),
    "join to": lambda at, away: join([at["own"]], away),
    "verify": lambda at, away: verify(Path(away)),
    "a tokenizer": lambda at, away: load_tokenizer(f"{away}/tokenizer.json"),
    "learn from": lambda at, away: gm.train_tokenizer([away], "o"),
    "learn to": lambda at, away: gm.train_tokenizer([at["text"]], away),
}


# Those through which something is written.
WRITTEN = ("out", "work", "save_index", "a plan's file", "export to", "import to", "join to", "learn to")


@pytest.mark.parametrize("door", DOORS)
def test_an_address_that_cannot_be_is_refused_wherever_a_path_is_taken_and_nothing_is_written(
    stores: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=rf"{UNKNOWN}.* is an address"):
        DOORS[door](stores, UNKNOWN)
    assert not any((tmp_path / name).exists() for name in ("s3:", "hf:", "o"))


@pytest.mark.parametrize("door", WRITTEN)
def test_http_is_refused_wherever_something_would_be_written(
    stores: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"https://host/corpus cannot be written, since http addresses are read only"):
        DOORS[door](stores, "https://host/corpus")


def test_one_path_and_several_are_a_list() -> None:
    assert as_addresses("paths", "a.bin") == [Path("a.bin")]
    assert as_addresses("paths", Path("a.bin")) == [Path("a.bin")]
    assert as_addresses("paths", ("a", Path("b"))) == [Path("a"), Path("b")]


@pytest.mark.parametrize("value", [None, 7, b"a", "", ["a", None], ["a", ""], {"a": 1}, "a\0b", "a\ud800"])
def test_what_names_no_file_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"(paths|Each of paths) must be a path"):
        as_addresses("paths", value)
