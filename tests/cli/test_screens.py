"""What a person reads: 80 columns in a terminal and in a log, percent kept, the commonest reasons, time and speed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

Command = Callable[..., Any]

RECIPE = """
out: out
sources:
  - {name: web, paths: ["web.jsonl"]}
  - {name: books, paths: ["books.jsonl"]}
filters:
  - length: {min_chars: 20, max_chars: 100000}
  - gopher_quality: {}
  - gopher_repetition: {}
  - c4: {}
tokenizer: byte
store: {val_fraction: 0.1}
"""
WORDS = ("the", "mill", "and", "river", "have", "been", "here", "with", "people", "of", "this", "valley", "since",
         "that", "to", "grain", "wheel", "water", "turns", "night", "village", "flour", "stone", "be")  # fmt: skip


def texts(name: str) -> list[str]:
    """Texts that go for a dozen reasons, and some that stay."""
    chosen = random.Random(name)
    kept = [". ".join(" ".join(chosen.choices(WORDS, k=12)).capitalize() for _ in range(20)) + "." for _ in range(20)]
    bad = ["short", "ab " * 100, "# " * 100, "12 34 " * 60, "x" * 500, "The mill grinds. " * 60, "- one\n- two\n" * 60,
           "... " * 99, "lorem ipsum " * 60, "{ a } " * 90]  # fmt: skip
    return kept + bad * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources, most of which will be dropped, and a recipe for them."""
    folder = tmp_path_factory.mktemp("screens")
    for name in ("web", "books"):
        rows = [json.dumps({"id": f"{name}{i}", "text": text}) for i, text in enumerate(texts(name))]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def log(gristmill: Command, folder: Path) -> str:
    """What `prepare` prints of it where nobody watches."""
    return str(gristmill("prepare", "--recipe", "recipe.yaml", cwd=folder).out)


def columns(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_a_log_of_prepare_has_80_columns_and_says_what_was_kept_and_why_the_rest_went(folder: Path, log: str) -> None:
    assert columns(log) <= 80, log
    funnel = json.loads((folder / "out" / "funnel.json").read_text())
    read = sum(row["documents"] for row in funnel if row["stage"] == "read")
    kept = sum(row["documents"] for row in funnel if row["stage"] in ("train", "val"))
    assert f"{kept:,} of {read:,} documents were kept ({kept / read:.1%})." in log
    first = [row for row in funnel if row["stage"] == "length"]
    left, seen = sum(row["documents"] for row in first), sum(row["documents_in"] for row in first)
    assert re.search(rf"^length +{left:,} +{left / seen:.1%} +", log, re.MULTILINE), log
    assert re.search(r"^ {4}\w+ \d+, \w+ \d+,\s+\w+ \d+, and \d+ for another reason$", log, re.MULTILINE), log
    assert re.search(r"^Wrote [\d,]+ tokens in [\d.]+ s \([\d.<]+ MB at [\d.<]+ MB/s\)\.$", log, re.MULTILINE)
    assert re.search(r"^books +50 +\d+ +[\d.]+% +[\d,]+$", log, re.MULTILINE)


def test_inspect_shows_the_same_funnel(gristmill: Command, folder: Path, log: str) -> None:
    assert log.startswith(gristmill("inspect", "out", cwd=folder).out)


@pytest.mark.parametrize(("split", "other"), [("train", "val"), ("val", "train")])
def test_a_split_shows_itself_alone(call: Command, store: Path, split: str, other: str) -> None:
    shown = call("inspect", store / split).out
    assert re.search(rf"^{split} +\d", shown, re.MULTILINE) and not re.search(rf"^{other} ", shown, re.MULTILINE)
    values = call("inspect", store / split, "--json").json
    assert set(values["splits"]) == {split} == {row["stage"] for row in values["funnel"]}
    assert values["path"] == str(store / split)


def test_a_plan_shows_its_phases_and_their_weights_uncut(call: Command, store: Path, tmp_path: Path) -> None:
    names = [f"a source with a rather long name {i}" for i in range(6)]
    weights = dict(zip(names, ("0.123456789", "0.5", "0.1", "0.1", "0.1", "0.076543211"), strict=True))
    later = dict.fromkeys(names, 0) | {names[0]: "0.3", names[5]: "0.7"}
    phases = [gm.Phase(from_step=5, weights=later), gm.Phase(from_step=8, seq_len=16, batch_size=8)]
    plan = gm.Plan({name: gm.open(store) for name in names}, weights, seq_len=32, batch_size=4, steps=10,
                   options=gm.PlanOptions(phases=phases))  # fmt: skip
    plan.save(tmp_path / "plan.json")
    shown = call("inspect", tmp_path / "plan.json").out
    whole = " ".join(shown.split())
    assert all(f"{name} {weight}" in whole for name, weight in weights.items())
    assert re.search(r"^ +5 +8 +32 +4$", shown, re.MULTILINE) and re.search(r"^ +8 +10 +16 +8$", shown, re.MULTILINE)
    assert columns(shown.partition("After 10 steps")[0].partition("\n")[2]) <= 80
    values = call("inspect", tmp_path / "plan.json", "--json").json
    assert [phase["from_step"] for phase in values["phases"]] == [0, 5, 8]
    assert values["phases"][0]["weights"] == weights


def test_weights_by_size_are_shown_exactly_and_in_percent(call: Command, store: Path, tmp_path: Path) -> None:
    gm.Plan({"a": gm.open(store), "b": gm.open(store / "val")}, seq_len=32, batch_size=4, steps=2).save(
        tmp_path / "p.json"
    )
    assert re.search(r"weights: a \d+/\d+ \([\d.]+%\), b \d+/\d+ \([\d.]+%\)", call("inspect", tmp_path / "p.json").out)


@pytest.mark.parametrize(
    ("arguments", "closes"),
    [("verify {store}", r"Verified in [\d.]+ s \([\d.<]+ MB at [\d.<]+ MB/s\)\."),
     ("import {bare} --dtype uint16 --tokenizer byte --out {new}", r"Done in [\d.]+ s \([\d.<]+ MB at [\d.<]+ MB/s\)"),
     ("export {store} --to npy --out {new}", r"Done in [\d.]+ s \([\d.<]+ MB at [\d.<]+ MB/s\)"),
     ("train-tokenizer {bare}.txt --vocab-size 300 --out {new}", r"Done in [\d.]+ s \([\d.<]+ MB at [\d.<]+ MB/s\)\.")],
)  # fmt: skip
def test_a_command_closes_with_its_time_and_speed(
    call: Command, store: Path, bare: Path, tmp_path: Path, arguments: str, closes: str
) -> None:
    Path(f"{bare}.txt").write_text("The mill grinds. " * 1000)
    places = {"store": store, "bare": bare, "new": tmp_path / "new"}
    assert re.search(closes, call(*(word.format(**places) for word in arguments.split())).out)


def test_the_encoding_of_plain_text_can_be_named(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("né à Zürich".encode("latin-1"))
    options = ("--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0)
    call("prepare", tmp_path / "a.txt", "--encoding", "latin-1", *options)
    assert gm.open(tmp_path / "out").document(0).text == "né à Zürich"
    said = call("prepare", tmp_path / "a.txt", "--encoding", "latin-11", *options, "--overwrite", code=2).said
    assert "latin-11" in said
