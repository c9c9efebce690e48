"""A store that is prepared into a bucket: the bytes of a run to disk, whatever breaks, is killed or runs beside it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.places.door import place_at
from gristmill.places.folders import UNFINISHED
from gristmill.store.manifest import MANIFEST

CODE = "import json, sys, gristmill as gm; gm.prepare(json.loads(sys.argv[1]), progress=False, options={'workers': 2})"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for i in range(3):
        rows = [{"id": f"{i}-{j}", "text": f"text {i} {j % 350} " * 30} for j in range(400)]
        (folder / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def out(proxy: Any, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address below which nothing lies; the work on it is a matter of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield (where := f"s3://corpus/prepared/{tmp_path.name}")
    proxy.begin()
    type(place_at(where)).remove_all([f"{folder}/{name}" for folder, names in listed(where) for name in names])


def listed(where: str) -> list[tuple[str, list[str]]]:
    return list(place_at(where).walk(links=False))


def recipe(out: str | Path, raw: Path, **more: Any) -> dict[str, Any]:
    store = {"tokens_per_shard": 60_000, "val_fraction": 0.1, **more}
    source = {"name": "web", "paths": [str(raw)]}
    return {"out": str(out), "sources": [source], "tokenizer": "byte", "store": store, "dedup": ["exact", "near"]}


def content(where: str | Path) -> dict[str, bytes]:
    """All files but the one that tells of the run."""
    root = os.fspath(where)
    found = [f"{folder}/{name}" for folder, names in listed(root) for name in names]
    return {
        path.removeprefix(root): place_at(path).read()
        for path in found
        if not path.endswith(("run.json", "report.html"))
    }


@pytest.fixture(scope="module", params=["none", "zstd"])
def here(tmp_path_factory: pytest.TempPathFactory, raw: Path, request: pytest.FixtureRequest) -> tuple[str, Path]:
    root = tmp_path_factory.mktemp("here") / "store"
    gm.prepare(recipe(root, raw, compression=request.param))
    return request.param, root


def test_a_store_in_a_bucket_has_the_bytes_of_one_on_disk(here: tuple[str, Path], raw: Path, out: str) -> None:
    made = gm.prepare(recipe(out, raw, compression=here[0]))
    assert content(out) == content(here[1]) and len(made.splits["train"]) > 3
    assert gm.verify(out).whole and not place_at(f"{out}/.lock").exists()
    with pytest.raises(gm.ConfigError, match="already holds a store"):
        gm.prepare(recipe(out, raw))
    gm.prepare(recipe(out, raw, compression=here[0], tokens_per_shard=10**6), overwrite=True)
    assert gm.verify(out).whole and not gm.verify(out).unlisted and len(gm.open(f"{out}/train").files) == 1


@pytest.mark.parametrize(
    ("here", "fault"),  # a request does not know whether its bytes are compressed
    [("none", "500"), ("zstd", "503"), ("none", "cut"), ("zstd", "half"), ("none", "lost"), ("zstd", "expired")],
    indirect=["here"],
)
def test_what_may_pass_is_sent_again(here: tuple[str, Path], raw: Path, out: str, proxy: Any, fault: str) -> None:
    proxy.begin(lambda number, method: fault if number % 5 == 3 else None)
    gm.prepare(recipe(out, raw, compression=here[0]))
    proxy.begin()
    assert content(out) == content(here[1])


def killed_at(request: int, recipe: dict[str, Any], proxy: Any) -> int:
    """How a run ends that is killed, with all its workers, when the proxy is asked for the n-th time."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, json.dumps(recipe)], start_new_session=True, stderr=subprocess.DEVNULL
    )

    def kill(number: int, method: str) -> str | None:
        if number == request:
            os.killpg(process.pid, signal.SIGKILL)
        return None

    proxy.begin(kill)
    return process.wait()


def kill_and_go_on(here: Path, made: dict[str, Any], proxy: Any, seed: int, times: int) -> None:
    """Kill a run over and over; nothing is seen of a store before the last has ended, which has the same bytes."""
    out, chance = made["out"], random.Random(seed)
    for _ in range(times):
        ended = killed_at(chance.randrange(2, 150), made, proxy)
        proxy.begin()
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        if not place_at(f"{out}/{MANIFEST}").exists():
            with pytest.raises(gm.GristmillError):
                gm.open(out)
    proxy.begin()
    if not place_at(f"{out}/{MANIFEST}").exists():
        gm.prepare(made)
    assert content(out) == content(here)
    with pytest.raises(gm.ConfigError, match="already holds a store"):  # which ends what was killed after its manifest
        gm.prepare(made)
    assert not place_at(f"{out}/{UNFINISHED}").exists() and not any(names for _, names in listed(f"{out}/.work"))


def test_a_run_that_is_killed_shows_no_store_and_goes_on(
    here: tuple[str, Path], raw: Path, out: str, proxy: Any, soak: bool
) -> None:
    for seed in range(100 if soak else 1):
        kill_and_go_on(here[1], recipe(f"{out}/{seed}", raw, compression=here[0]), proxy, seed, times=5 if soak else 2)


def test_of_two_runs_at_once_one_is_refused(here: tuple[str, Path], raw: Path, out: str, tmp_path: Path) -> None:
    ended: list[object] = []

    def run(number: int) -> None:
        try:
            options = {"work": str(tmp_path / f"work-{number}")}
            ended.append(gm.prepare(recipe(out, raw, compression=here[0]), options=options))
        except gm.ConfigError as error:
            ended.append(str(error))

    runs = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    refused = [each for each in ended if isinstance(each, str)]
    assert len(refused) == 1 and ("Another run (process" in refused[0] or "already holds a store" in refused[0])
    assert content(out) == content(here[1])


def test_objects_of_others_are_never_written_over_or_deleted(raw: Path, out: str) -> None:
    place_at(f"{out}/train/notes.txt").write("of somebody")
    for overwrite in (False, True):
        with pytest.raises(gm.ConfigError, match="no part of a store"):
            gm.prepare(recipe(out, raw), overwrite=overwrite)
    assert content(out) == {"/train/notes.txt": b"of somebody"}


def test_wrong_credentials_are_told_before_any_work(raw: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
        with pytest.raises(gm.GristmillError, match="the server refuses these credentials") as told:
            gm.prepare(recipe(out, raw))
    assert "not-the-secret" not in str(told.value) and content(out) == {}


def test_the_work_on_a_store_elsewhere_is_gone_in_the_end_or_kept_where_it_is_said(
    raw: Path, out: str, tmp_path: Path
) -> None:
    gm.prepare(recipe(out, raw))
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] in ([], [".lock"])
    gm.prepare(recipe(out, raw), overwrite=True, options={"work": str(tmp_path / "work")})
    assert (tmp_path / "work" / "tokens").is_dir()
