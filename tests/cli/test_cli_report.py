"""`gristmill report`, and the report that `prepare` makes by itself."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.report import writing

Command = Callable[..., Any]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw.txt").write_text("The mill grinds what it is given.\n" * 50)
    return tmp_path / "raw.txt"


def test_prepare_makes_a_report_that_is_no_part_of_the_stores_content(call: Command, raw: Path, tmp_path: Path) -> None:
    ran = call("prepare", raw, "--out", tmp_path / "a", "--tokenizer", "byte")
    assert f"Read its report in a browser: {tmp_path / 'a' / 'report.html'}" in ran.out
    call("prepare", raw, "--out", tmp_path / "b", "--tokenizer", "byte", "--no-report")
    assert (tmp_path / "a" / "report.html").exists() and not (tmp_path / "b" / "report.html").exists()
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()
    assert "whole" in call("verify", tmp_path / "a").out


def test_a_report_that_fails_leaves_a_finished_store_and_a_note(
    call: Command, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(writing, "report", fail)
    ran = call("prepare", raw, "--out", tmp_path / "a", "--tokenizer", "byte")
    assert "note: The store is whole, but its report could not be made (no ink)" in ran.said
    assert gm.open(tmp_path / "a" / "train").num_tokens


def test_a_report_lies_in_the_store_beside_the_plan_or_where_it_is_said(
    call: Command, copied: Path, plan_file: Path, tmp_path: Path
) -> None:
    call("report", copied)
    call("report", copied / "manifest.json", "--out", tmp_path / "own.html")
    call("report", plan_file)
    assert (copied / "report.html").read_text() == (tmp_path / "own.html").read_text()
    assert plan_file.with_name("plan.report.html").read_text().startswith("<!doctype html>")


def test_the_figures_of_a_report_are_those_of_its_json(call: Command, store: Path, tmp_path: Path) -> None:
    ran = call("report", store, "--out", tmp_path / "page.html", "--json")
    found = ran.json["figures"]
    assert found["lengths"]["documents"] == 200 and found["store"]["funnel"]
    assert json.dumps(found["usage"]["unused"]) in (tmp_path / "page.html").read_text().replace(",", "")


def test_open_shows_the_page_in_a_browser(
    call: Command, plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    call("report", plan_file, "--out", tmp_path / "page.html", "--open")
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_what_is_neither_store_nor_plan_is_refused_in_a_sentence(
    call: Command, store: Path, plan_file: Path, checkpoint: Path, tmp_path: Path
) -> None:
    assert "does not exist" in call("report", tmp_path / "none", code=2).said
    assert "holds no manifest.json" in call("report", tmp_path, code=2).said
    assert "is no plan" in call("report", checkpoint, code=2).said
    assert "compare two stores or two plans" in call("report", store, "--vs", plan_file, code=2).said
    (tmp_path / "mine.txt").write_text("my notes")
    assert "is no page" in call("report", store, "--out", tmp_path / "mine.txt", code=2).said
