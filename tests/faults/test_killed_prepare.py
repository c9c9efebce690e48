"""A prepare that is killed leaves nothing that looks finished, and running it again gives the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import pydoc
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm

Start = Callable[..., "subprocess.Popen[str]"]
Prepare = Callable[..., "subprocess.Popen[str]"]

RECIPE = """
out: {out}
sources:
  - {{name: a, paths: ["{raw}/a.jsonl"]}}
  - {{name: b, paths: ["{raw}/b.jsonl"]}}
  - {{name: c, paths: ["{raw}/c.jsonl"]}}
  - {{name: d, paths: ["{raw}/d.jsonl"]}}
filters: [{{length: {{min_chars: 500}}}}, {{code_ratio: {{max: 0.6}}}}]
dedup: [exact, near, lines]
tokenizer: byte
store: {{tokens_per_shard: 20000, val_fraction: 0.1}}
"""


def corpus() -> list[dict[str, str]]:
    """The help topics of `pydoc`, some of them twice, some of them again with a word changed, and a line in all."""
    from pydoc_data.topics import topics

    texts = [pydoc.plain(text) for _, text in sorted(topics.items())]
    texts += texts[::3] + [text.replace(" the ", " one ", 1) for text in texts[1::3]]
    return [
        {"id": f"{i}", "text": f"This line stands above each of the topics.\n{text}"} for i, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files, so four sources and four units of work."""
    folder = tmp_path_factory.mktemp("raw")
    for part, name in enumerate("abcd"):
        rows = corpus()[part::4]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def prepare(start: Start, raw: Path, tmp_path: Path) -> Iterator[Prepare]:
    """`prepare("out", workers=2)`: a run in a process group of its own, which does not outlive the test."""
    begun = []

    def started(out: str, workers: int, *options: object) -> subprocess.Popen[str]:
        recipe = tmp_path / f"{out}.yaml"
        recipe.write_text(RECIPE.format(out=tmp_path / out, raw=raw))
        process = start("prepare", "--recipe", recipe, "--workers", workers, *options, start_new_session=True)
        begun.append(process)
        return process

    yield started
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finished(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    assert process.returncode == 0, said


def content(root: Path) -> dict[str, Any]:
    """Every file whose bytes are promised, and the rows of every Parquet file; no other file may be left."""
    found: dict[str, Any] = {}
    others = (".lock", "run.json", "report.html")
    for path in (path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in others):
        rows = path.suffix == ".parquet"
        found[path.relative_to(root).as_posix()] = pq.read_table(path).to_pylist() if rows else path.read_bytes()
    return found


@pytest.fixture(scope="module")
def whole(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted run by one process makes."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "recipe.yaml").write_text(RECIPE.format(out=folder / "store", raw=raw))
    gm.prepare(folder / "recipe.yaml", options=gm.RunOptions(workers=1))
    found = content(folder / "store")
    dropped = {row["rule"] for row in found["dropped.parquet"]}
    assert {"length", "exact", "near"} <= dropped and len(found) > 50
    return found


def markers(out: Path) -> int:
    """Jobs and queries that have said that they are done."""
    names = (name for _, _, files in os.walk(out / ".work") for name in files)  # folders may go while one looks
    return sum(name.endswith(".json") for name in names)


def wait_for(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something holds, or the process has ended."""
    until = time.monotonic() + 120
    while process.poll() is None and not reached():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.002)


@contextlib.contextmanager
def standing(process: subprocess.Popen[str]) -> Iterator[None]:
    """A run that does nothing meanwhile: what it is found to be does not change before something is done to it."""
    os.killpg(process.pid, signal.SIGSTOP)
    yield
    os.killpg(process.pid, signal.SIGCONT)


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def check_unfinished(out: Path) -> None:
    """Nobody can take it for a store."""
    assert not (out / "manifest.json").exists()
    for place in (out, out / "train"):
        with pytest.raises(gm.StoreError, match=r"no manifest.json.*cut short; run it again"):
            gm.open(place)


def test_killed_at_random_moments_it_goes_on_with_any_number_of_workers_to_the_same_bytes(
    prepare: Prepare, whole: dict[str, Any], tmp_path: Path
) -> None:
    rng, out, kills, again = random.Random(0), tmp_path / "out", 0, list[str]()
    for workers in (2, 1, 3, 2):
        goal = markers(out) + rng.randint(1, 8)
        process = prepare("out", workers)
        wait_for(lambda goal=goal: markers(out) >= goal, process)  # type: ignore[misc]
        time.sleep(rng.uniform(0, 0.1))
        if process.poll() is None:
            kill(process)
        if (out / "manifest.json").exists():  # the last of these moments may be too late on a quick machine
            again = ["--overwrite"]
            break
        assert process.returncode == -signal.SIGKILL
        check_unfinished(out)
        kills += 1
    assert kills >= 2
    finished(prepare("out", 1, *again))
    assert content(out) == whole


def test_killed_while_it_writes_shards_it_keeps_those_that_are_done(
    prepare: Prepare, start: Start, whole: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = prepare("out", 1)
    wait_for((out / "train" / "shard-00004.bin").exists, process)
    kill(process)
    check_unfinished(out)
    first = (out / "train" / "shard-00000.bin").stat().st_ino
    verifying = start("verify", out)
    _, said = verifying.communicate()
    assert verifying.returncode == 1 and said.count("\n") == 1 and "manifest.json" in said
    finished(prepare("out", 2))
    assert content(out) == whole and (out / "train" / "shard-00000.bin").stat().st_ino == first


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The workers of a run: children of the command, whose parent only watches, but for the tracker of resources."""
    parents = {}
    for task in Path("/proc").glob("[0-9]*"):
        try:
            if b"resource_tracker" not in (task / "cmdline").read_bytes():
                parents[int(task.name)] = int((task / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    return [task for task, parent in parents.items() if parents.get(parent) == process.pid]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds worker processes in /proc")
def test_a_worker_that_dies_is_one_sentence_and_the_rerun_finishes(
    prepare: Prepare, whole: dict[str, Any], tmp_path: Path
) -> None:
    process = prepare("out", 2)
    wait_for(lambda: markers(tmp_path / "out") > 0, process)
    with standing(process):
        os.kill(workers_of(process)[0], signal.SIGKILL)
    _, said = process.communicate()
    sentence = "gristmill: A worker process died, perhaps for want of memory: run the same command again"
    assert process.returncode == 1 and said.startswith(sentence) and said.count("\n") == 1, said
    check_unfinished(tmp_path / "out")
    finished(prepare("out", 1))
    assert content(tmp_path / "out") == whole


def test_a_second_run_on_a_folder_is_told_of_the_first(prepare: Prepare, whole: dict[str, Any], tmp_path: Path) -> None:
    first = prepare("out", 2)
    wait_for(lambda: markers(tmp_path / "out") > 0, first)
    os.killpg(first.pid, signal.SIGSTOP)
    second = prepare("out", 1, "--overwrite")
    _, said = second.communicate()
    os.killpg(first.pid, signal.SIGCONT)
    assert second.returncode == 2 and "Another run is writing" in said and said.count("\n") == 1
    finished(first)
    assert content(tmp_path / "out") == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_is_one_sentence_and_leaves_no_half_written_file(
    prepare: Prepare, tmp_path: Path, workers: int
) -> None:
    """Ctrl-C reaches the whole process group, workers too."""
    process = prepare("out", workers)
    wait_for((tmp_path / "out" / "train" / "shard-00000.bin").exists, process)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    told = "gristmill: interrupted. Run the same command again, and it goes on from what is done.\n"
    assert process.returncode == 130 and said.endswith(told) and "Traceback" not in said, said
    check_unfinished(tmp_path / "out")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds worker processes in /proc")
def test_workers_end_with_a_run_that_is_killed_alone(prepare: Prepare, tmp_path: Path) -> None:
    process = prepare("out", 2)
    wait_for(lambda: markers(tmp_path / "out") > 0, process)
    with standing(process):
        workers = workers_of(process)
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert workers and time.monotonic() < until, "a worker lives on and may write into a later run's files"
        time.sleep(0.05)
    check_unfinished(tmp_path / "out")
