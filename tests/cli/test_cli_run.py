"""Runs on the command line: what stands out, what is left out, the ledger, and a look while it goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm

Command = Callable[..., Any]


def test_a_run_shows_how_far_it_is_and_its_mix(call: Command, recorded: Path) -> None:
    for place in (recorded, recorded / "served.parquet"):
        ran = call("inspect", place)
        assert "98 of 99" in ran.out and "web" in ran.out and "waiting for data" in ran.out


def test_spikes_name_the_document_behind_them(call: Command, recorded: Path) -> None:
    found = call("inspect", recorded, "--spikes", "--json").json
    seen = {each.step for each in gm.load_plan(recorded / "plan.json").find("d7")}
    assert found["suspects"][0]["doc_id"] == "d7"
    assert found["suspects"][0]["origin"] == "web" and "exact" in found["suspects"][0]["passed"]
    assert {spike["step"] for spike in found["spikes"]} <= seen
    assert "d7" in call("inspect", recorded, "--spikes").out


def test_a_step_is_shown_as_text(call: Command, recorded: Path) -> None:
    ran = call("inspect", recorded, "--step", 3)
    assert "row 0, loss 3.0" in ran.out and "document" in ran.out
    rows = call("inspect", recorded, "--step", 3, "--json").json["rows"]
    assert [row["row"] for row in rows] == [0, 1, 2, 3] and all(len(row["text"]) > 5 for row in rows)


def test_the_steps_of_a_document_are_those_of_the_plan(call: Command, recorded: Path) -> None:
    seen = call("inspect", recorded, "--doc", "d7", "--json").json
    assert seen == call("inspect", recorded / "plan.json", "--doc", "d7", "--json").json


def test_what_is_left_out_is_written_as_a_plan_that_a_checkpoint_goes_on_with(
    call: Command, recorded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "plan2.json"
    ran = call("inspect", recorded, "--exclude-doc", "d7", "--from-step", 20, "--exclude-step", 30, "--out", out)
    assert "Checkpoints up to step 20" in " ".join(ran.out.split())
    before, after = gm.load_plan(recorded / "plan.json"), gm.load_plan(out)
    loader = gm.Loader(before, threads=0)
    loader.seek(20)
    gm.Loader(after, threads=0).load_state_dict(loader.state_dict())
    assert after.skips.covers(30)
    assert all(each.excluded for s in range(20, 30) for each in after.trace(s) if each.doc_id == "d7")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--out p.json", "What is to be left out?"),
        ("--exclude-step 3", "Give --out FILE"),
        ("--exclude-doc d7 --out p.json", "Give --from-step N"),
        ("--exclude-doc nobody --from-step 1 --out p.json", "in none of the sources"),
        ("--plan p.json", "--plan asks about a checkpoint"),
        ("--dtype uint16", "--dtype asks about a token file"),
    ],
)
def test_what_cannot_be_asked_of_a_run_is_said(call: Command, recorded: Path, options: str, message: str) -> None:
    assert message in call("inspect", recorded, *options.split(), code=2).said


def test_spikes_of_what_is_no_run_are_refused(call: Command, store: Path, plan_file: Path) -> None:
    for path in (store, plan_file):
        assert "--spikes asks about a run" in call("inspect", path, "--spikes", code=2).said


def test_a_run_without_losses_says_how_to_tell_them(call: Command, plan_file: Path, tmp_path: Path) -> None:
    with gm.Loader(gm.load_plan(plan_file), threads=0) as loader:
        loader.record(tmp_path / "served.parquet")
        list(loader)
    assert "loader.record_loss(loss)" in call("inspect", tmp_path, "--spikes", code=2).said


def test_a_stream_has_no_documents_to_go_back_to(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A line of text.\n" * 99)
    stream = gm.stream(str(tmp_path / "a.txt"), documents="line").tokenize("byte").pack(16).batch(2, seed=0)
    with stream.loader(threads=0) as loader:
        loader.record(tmp_path / "served.parquet")
        for step, _ in zip(range(40), loader, strict=False):
            loader.record_loss(9.0 if step == 38 else 3.0)
    found = call("inspect", tmp_path, "--spikes", "--json").json
    assert [spike["step"] for spike in found["spikes"]] == [38] and not found["suspects"]
    for words in (["inspect", tmp_path, "--step", 3], ["inspect", tmp_path, "--doc", "x"], ["ledger", tmp_path]):
        assert "no plan.json" in call(*words, code=2).said


def test_the_ledger_of_a_run_counts_what_was_served(call: Command, recorded: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "ledger.parquet", tmp_path / "ledger.html"
    ran = call("ledger", recorded, "--out", out, "--html", page)
    rows = pq.read_table(out)
    assert f"{99 * 4 * 32:,} tokens" in ran.out and sum(rows["tokens"].to_pylist()) == 99 * 4 * 32
    assert rows.column_names == ["store", "source", "id", "tokens", "domain", "licence"]
    assert "12,672" in page.read_text() and page.read_text().startswith("<!doctype html>")


def test_a_plan_must_be_told_how_far_it_was_trained(call: Command, plan_file: Path) -> None:
    assert "say --until N" in call("ledger", plan_file, code=2).said
    assert call("ledger", plan_file, "--until", 3, "--json").json["tokens"] == 3 * 4 * 32


def test_a_take_down_list_is_answered_with_steps(call: Command, recorded: Path, tmp_path: Path) -> None:
    ids, out = tmp_path / "ids.txt", tmp_path / "steps.parquet"
    ids.write_text("d7\nd9\nnobody\n\n")
    ran = call("ledger", recorded, "--ids", ids, "--out", out)
    assert "1 ids are in none of the stores: nobody" in ran.out
    found = {row["id"]: row for row in pq.read_table(out).to_pylist()}
    seen = gm.load_plan(recorded / "plan.json").find("d7")
    assert found["d7"]["steps"] == [each.step for each in seen]
    assert (found["d7"]["first_step"], found["d7"]["last_step"]) == (seen[0].step, seen[-1].step)
    assert "--ids nothing cannot be read" in call("ledger", recorded, "--ids", "nothing", code=2).said
    assert "leave out --ids" in call("ledger", recorded, "--ids", ids, "--html", "x.html", code=2).said


def test_a_look_at_a_run_ends_where_there_is_no_terminal(call: Command, recorded: Path, store: Path) -> None:
    assert "one look" in call("watch", recorded).out
    assert "98 of 99" in call("watch", recorded, "--once").out
    assert json.loads(call("watch", recorded, "--json").out)["step"] == 98
    assert "holds no record of a run" in call("watch", store, code=2).said
