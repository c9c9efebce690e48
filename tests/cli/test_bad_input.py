"""Input that cannot be read: an error with file and place and no store, or with `--on-error skip` a count."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

Command = Callable[..., Any]
GOOD = b"".join(json.dumps({"text": f"A text with the number {i}."}).encode() + b"\n" for i in range(2000))


def tar_of(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in members.items():
            found = tarfile.TarInfo(name)
            found.size = len(content)
            tar.addfile(found, io.BytesIO(content))
    return data.getvalue()


# By case: the file, its bytes, what the message must say, and how many the funnel counts when errors are skipped.
CASES: dict[str, tuple[str, bytes, str, int]] = {
    "a binary file named .txt": ("bad.txt", bytes(range(256)) * 9, "bad.txt", 1),
    "UTF-16": ("bad.txt", "some text".encode("utf-16"), "bad.txt", 1),
    "Latin-1": ("bad.txt", b"caf\xe9", "bad.txt is not UTF-8: byte 3", 1),
    "a truncated gzip": ("bad.jsonl.gz", gzip.compress(GOOD)[:-20], "bad.jsonl.gz", 1),
    "a gzip that is none": ("bad.jsonl.gz", GOOD, "bad.jsonl.gz", 1),
    "a truncated tar": ("bad.tar", tar_of({"a.txt": b"x" * 5000})[:3000], "bad.tar", 1),
    "a Parquet file that is none": ("bad.parquet", GOOD, "bad.parquet", 1),
    "a line that is no JSON": ("bad.jsonl", b'{"text": "a"}\nnothing\n{"text": "b"}\n', "bad.jsonl, line 2", 1),
    "lines without the field": ("bad.jsonl", b'{"body": "a"}\n{"text": "b"}\n{"text": 3}\n', "bad.jsonl, line 1", 2),
    "invalid UTF-8 in a line": ("bad.jsonl", b'{"text": "a"}\n{"text": "caf\xe9"}\n', "bad.jsonl, line 2", 1),
    "an id that comes twice": (
        "bad.jsonl", b'{"id": "x", "text": "a"}\n{"id": "x", "text": "b"}\n', "'x'", 1,
    ),
}  # fmt: skip


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good.txt").write_text("A text that can be read.")
    return tmp_path / "good.txt"


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named_with_its_place_and_no_store_is_left(
    call: Command, good: Path, tmp_path: Path, case: str
) -> None:
    name, data, message, _ = CASES[case]
    (tmp_path / name).write_bytes(data)
    ran = call("prepare", good, tmp_path / name, "--out", tmp_path / "out", "--tokenizer", "byte", code=2)
    assert message in ran.said and len(ran.said.splitlines()) == 1
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_counted_where_errors_are_skipped(call: Command, good: Path, tmp_path: Path, case: str) -> None:
    name, data, message, count = CASES[case]
    (tmp_path / name).write_bytes(data)
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--on-error", "skip", "--json")
    ran = call("prepare", good, f"bad={tmp_path / name}", "--out", tmp_path / "out", *options)
    assert {"stage": "unreadable", "source": "bad", "documents": count} in ran.json["funnel"]
    assert f"{count} documents could not be read" in ran.said and message in ran.said
    assert gm.open(tmp_path / "out").document(0).text == "A text that can be read."


def test_what_was_read_of_a_file_before_it_breaks_off_stays(call: Command, tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": f"A text with the number {i}. " * 400}).encode() + b"\n" for i in range(1600))
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(rows, 1)[:-20])
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--on-error", "skip", "--json")
    ran = call("prepare", tmp_path / "bad.jsonl.gz", "--out", tmp_path / "out", *options)
    assert 1550 < ran.json["splits"]["train"]["documents"] < 1600
    (read,) = re.findall(r"cut off after ([0-9,]+) unpacked bytes", ran.said)
    assert 0.97 < int(read.replace(",", "")) / len(rows) < 1


def test_an_empty_file_beside_others_is_no_error(call: Command, good: Path, tmp_path: Path) -> None:
    for name in ("empty.txt", "empty.jsonl"):
        (tmp_path / name).touch()
    arguments = (good, tmp_path / "empty.txt", tmp_path / "empty.jsonl", "--out", tmp_path / "out")
    ran = call("prepare", *arguments, "--tokenizer", "byte", "--val-fraction", 0, "--json")
    assert ran.json["splits"]["train"]["documents"] == 1
    (row,) = (row for row in ran.json["funnel"] if row["stage"] == "empty")
    assert row["reasons"] in ({}, {"empty": 1})


def test_names_in_a_tar_lead_nowhere(call: Command, tmp_path: Path) -> None:
    data = tar_of({"../../outside.txt": b"one text", "/tmp/absolute.txt": b"two texts", "a/../b.txt": b"three"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tar").write_bytes(data)
    before = set(tmp_path.rglob("*"))
    options = ("--tokenizer", "byte", "--val-fraction", 0)
    call("prepare", tmp_path / "in" / "a.tar", "--out", tmp_path / "out", *options)
    store = gm.open(tmp_path / "out")
    assert sorted(store.document(i).text for i in range(store.num_documents)) == ["one text", "three", "two texts"]
    new = {path.relative_to(tmp_path).parts[0] for path in set(tmp_path.rglob("*")) - before}
    assert new == {"out"} and not (tmp_path.parent / "outside.txt").exists()


def test_one_id_in_two_files_names_both_places_and_with_skip_the_first_stays(call: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "x", "text": f"text {name}"}) + "\n")
    arguments = (f"a={tmp_path}/a.jsonl", f"b={tmp_path}/b.jsonl", "--out", tmp_path / "out", "--tokenizer", "byte")
    said = call("prepare", *arguments, code=2).said
    assert "The id 'x' is in a.jsonl (0) and again in b.jsonl (0)" in said and "--on-error skip" in said
    assert not (tmp_path / "out" / "manifest.json").exists()
    ran = call("prepare", *arguments, "--on-error", "skip", "--val-fraction", 0, "--json")
    reasons = {row["source"]: row["reasons"] for row in ran.json["funnel"] if row["stage"] == "id"}
    assert reasons == {"a": {}, "b": {"duplicate_id": 1}}
    assert gm.open(tmp_path / "out").document(0).text == "text a"


ADDRESSES = ("prepare {away} --out o", "prepare web={away} --out o", "prepare {text} --out {away}", "inspect {away}",
             "prepare {text} --out o --work {away}", "prepare {text} --out o --save-index {away}",
             "prepare --recipe {away}", "verify {away}", "dropped {away}",
             "index {away} --seq-len 8", "join {away} --out o", "export {away} --to npy --out o", "bench {away}",
             "import {away} --tokenizer byte --out o", "train-tokenizer {away} --out o", "init {away}",
             "demo --out {away}")  # fmt: skip


# What is written by demo is of this machine alone.
@pytest.mark.parametrize(("arguments", "away"), [*((each, "hf://bucket/x") for each in ADDRESSES),
                                                 ("demo --out {away}", "s3://bucket/x")])  # fmt: skip
def test_an_address_that_cannot_be_is_refused_by_every_command(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, away: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    words = arguments.format(away=away, text="a.txt").split()
    said = call(*words, code=2).said
    assert f"{away} is an address" in said and sorted(tmp_path.iterdir()) == [tmp_path / "a.txt"]
