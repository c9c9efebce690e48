"""Stores with a report, and a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gristmill as gm
from browser import Browser, browser
from gristmill.report.writing import report
from report_corpus import Made, recipe, words, write_corpus


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def made(raw: Path) -> Made:
    gm.prepare(recipe(raw, "store"), progress=False, options={"keep_dropped": True, "workers": 1})
    page = raw / "store" / "report.html"
    page.write_text(report(raw / "store")[0])
    return Made(raw / "store", page)


@pytest.fixture(scope="session")
def stricter(raw: Path) -> Path:
    """The same corpus, of which a rule drops more, with a text that changed and a new one."""
    rows = [json.loads(line) for line in (raw / "web.jsonl").read_text().splitlines()]
    rows[30]["text"] += " and an end"
    rows.append({"id": "fresh", "text": words("fresh", 80)})
    folder = raw / "stricter"
    folder.mkdir()
    (folder / "web.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "books.jsonl").write_bytes((raw / "books.jsonl").read_bytes())
    gm.prepare(recipe(folder, "store", min_words=60), progress=False, options={"workers": 1})
    return folder / "store"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened
