"""A work folder in object storage: the bytes of a run whose work is on disk, whatever is killed, refused or reused."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.places import uploads
from gristmill.places.door import place_at
from gristmill.places.folders import LOCK, UNFINISHED
from gristmill.places.traffic import traffic
from gristmill.stages.folders import is_work
from gristmill.store.manifest import MANIFEST

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]
MIX = {"weights": {f"{i}": weight for i, weight in enumerate((0.3, 0.1, 0.1, 0.2, 0.2, 0.1))}, "target": 120}


@pytest.fixture
def work(proxy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address below which nothing lies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield (where := f"s3://corpus/work/{tmp_path.name}")
    proxy.begin()
    type(place_at(where)).remove_all([f"{where}/{name}" for name in names_in(where)])


def names_in(where: str) -> list[str]:
    return [f"{folder}/{name}".removeprefix(f"{where}/")
            for folder, names in place_at(where).walk(links=False) for name in names]  # fmt: skip


def left_in(cache: Path) -> list[str]:
    """Files of this machine that a run has left, but for locks, which are empty."""
    return [path.name for path in cache.rglob("*") if path.is_file() and path.name != LOCK]


@pytest.fixture
def everything(tmp_path: Path, corpus: Path) -> dict[str, Any]:
    """All that a recipe can ask for beside filters and duplicates of all kinds."""
    with (corpus / "3.jsonl").open() as rows:
        (tmp_path / "evaluation.txt").write_text(json.loads(next(rows))["text"])
    return {"decontaminate": {"paths": [str(tmp_path / "evaluation.txt")]}, "mix": MIX, "shuffle": True}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_recipe_has_the_bytes_of_one_whose_work_is_on_disk(
    run: Run, read: Read, everything: dict[str, Any], work: str, tmp_path: Path, workers: int
) -> None:
    here = read(run("here", **everything))
    assert read(run("out", workers=workers, run={"work": work}, **everything)) == here
    assert left_in(tmp_path / "cache") == [] and not (tmp_path / "out" / ".work").exists()
    assert {name for name in names_in(work) if not is_work(name)} == {UNFINISHED}
    assert not place_at(f"{work}/{LOCK}").exists()


def test_few_documents_are_divided_by_the_same_cut(run: Run, read: Read, work: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    text = "\n\n".join(f"Paragraph {i} of a single document, and some words of its own." for i in range(400))
    (tmp_path / "raw" / "one.jsonl").write_text(json.dumps({"id": "one", "text": text}) + "\n")
    options = {"raw": tmp_path / "raw", "filters": [], "sources": [{"name": "one", "paths": [str(tmp_path / "raw")]}]}
    here = read(run("here", **options))
    assert json.loads(here[MANIFEST])["split"]["val"] == "text"
    assert read(run("out", run={"work": work}, **options)) == here


def test_the_next_recipe_takes_what_the_last_one_has_done(run: Run, read: Read, work: str, whole: Any) -> None:
    assert read(run("out", run={"work": work})) == whole
    stamps = {name: place_at(f"{work}/{name}").stamp() for name in names_in(work) if name.startswith("curate/")}
    before = traffic.requests
    other = run("other", run={"work": work}, dedup=["exact"])
    assert traffic.requests > before and read(other) == read(run("here", dedup=["exact"]))
    assert {name: place_at(f"{work}/{name}").stamp() for name in stamps} == stamps
    assert read(run("again", run={"work": work})) == whole


CODE = """
import json, sys, gristmill as gm
gm.prepare(json.loads(sys.argv[1]), progress=False, options={"work": sys.argv[2], "workers": 2})
"""


def killed_at(request: int, recipe: dict[str, Any], work: str, proxy: Any, cache: Path) -> int:
    """How a run ends that is killed, with all its workers, when the proxy is asked for the n-th time."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, json.dumps(recipe), work], start_new_session=True, stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )  # fmt: skip

    def kill(number: int, method: str) -> str | None:
        if number == request:
            os.killpg(process.pid, signal.SIGKILL)
        return None

    proxy.begin(kill)
    return process.wait()


def test_a_run_that_is_killed_goes_on_on_another_machine(
    recipe_file: Path, read: Read, whole: Any, work: str, proxy: Any, tmp_path: Path, soak: bool
) -> None:
    recipe = json.loads(recipe_file.read_text())
    chance = random.Random(0)
    for number in range(40 if soak else 2):  # each on a machine that has nothing of the others
        ended = killed_at(chance.randrange(100, 600), recipe, work, proxy, tmp_path / f"machine-{number}")
        proxy.begin()
        assert ended == -signal.SIGKILL and not (tmp_path / "out" / MANIFEST).exists()
    gm.prepare(recipe, options={"work": work}, progress=False)
    assert read(tmp_path / "out") == whole


def test_of_two_runs_in_one_work_folder_one_is_refused(run: Run, work: str) -> None:
    with (
        place_at(f"{work}/{LOCK}").lock(wait=False),
        pytest.raises(gm.ConfigError, match=f"Another run .* is writing to {work}"),
    ):
        run("out", run={"work": work})


def test_what_may_pass_is_asked_for_again(run: Run, read: Read, whole: Any, work: str, proxy: Any) -> None:
    proxy.begin(lambda number, method: ("500", "cut", "half", "lost")[number % 4] if number % 7 == 3 else None)
    assert read(run("out", run={"work": work})) == whole


def test_objects_of_others_are_refused_and_stay(run: Run, work: str) -> None:
    place_at(f"{work}/curate/notes.txt").write("of somebody")
    with pytest.raises(gm.ConfigError, match="curate is no part of a work folder"):
        run("out", run={"work": work})
    assert names_in(work) == ["curate/notes.txt"]


def test_credentials_that_are_refused_are_told_in_a_sentence(
    run: Run, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
        with pytest.raises(gm.GristmillError, match="the server refuses these credentials"):
            run("out", run={"work": work})
    assert names_in(work) == []


def test_a_full_disk_here_is_told_in_a_sentence_and_the_run_goes_on_later(
    run: Run, read: Read, whole: Any, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(uploads, "waiting_file", full)
        with pytest.raises(gm.EngineError, match=r"The disk is full while writing .*: free some space and run again\."):
            run("out", run={"work": work})
    assert read(run("out", run={"work": work})) == whole


def test_an_address_that_cannot_be_written_is_refused_at_once(run: Run) -> None:
    with pytest.raises(gm.ConfigError, match="http addresses are read only"):
        run("out", run={"work": "http://127.0.0.1:1/work"})


def test_work_and_store_lie_beside_each_other(work: str) -> None:
    recipe = {"out": f"{work}/store", "sources": [{"name": "a", "paths": ["a.txt"]}], "tokenizer": "byte"}
    with pytest.raises(gm.ConfigError, match=f"work={work}/store/work lies in out={work}/store: choose a folder"):
        gm.prepare(recipe, options={"work": f"{work}/store/work"})
