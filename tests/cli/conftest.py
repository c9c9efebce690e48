"""The command line as a user runs it: a real process, its output not a terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.cli import main
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.testing import tiny_store


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    said: str

    @property
    def json(self) -> Any:
        """All of stdout as one JSON value."""
        return json.loads(self.out)


def checked(ran: Ran, code: int) -> Ran:
    """Nothing may ever show a traceback or an escape code, and an error is a sentence of ours."""
    assert "Traceback" not in ran.said and "\x1b" not in ran.out + ran.said, ran.said
    assert ran.code == code, ran.said
    if code in (1, 2):
        errors = [line for line in ran.said.splitlines() if not line.startswith("note: ")]
        assert errors and all(line.startswith("gristmill: ") for line in errors), ran.said
    return ran


def without_compiling(said: str, command: object) -> str:
    """What was said, but for the note that the first command of a fresh machine adds; `warm` is about nothing else."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if command == "warm" or "which happens once" not in line)


def run(*arguments: object, code: int = 0, **settings: Any) -> Ran:
    """Run a command as a process and check how it ends."""
    command = [sys.executable, "-m", "gristmill.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, **settings)
    return checked(Ran(done.returncode, done.stdout, without_compiling(done.stderr, next(iter(arguments), ""))), code)


@pytest.fixture(scope="session")
def gristmill() -> Callable[..., Ran]:
    """`gristmill("inspect", path, code=2)`: run a command as a process, check its exit code, give what it printed."""
    return run


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """As `gristmill` in this process, for long lists of cases: an exception that escapes fails the test."""

    def called(*arguments: object, code: int = 0) -> Ran:
        try:
            ended = main([str(argument) for argument in arguments])
        except SystemExit as error:
            ended = int(error.code or 0)
        out, said = capfd.readouterr()
        return checked(Ran(ended, out, without_compiling(said, next(iter(arguments), ""))), code)

    return called


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 200 documents with the byte tokenizer, both splits filled, train in several shards: read only."""
    folder = tmp_path_factory.mktemp("cli")
    lines = [json.dumps({"id": f"d{i}", "text": f"document {i} [bold]:smile: é\x1b[31m"}) for i in range(200)]
    (folder / "raw.jsonl").write_text("\n".join(lines))
    sources = [SourceOptions("web", [str(folder / "raw.jsonl")])]
    gm.prepare(Recipe(str(folder / "store"), sources, tokenizer="byte", clean=None, store=StoreOptions(2000, 0.2)))
    return folder / "store"


@pytest.fixture
def copied(store: Path, tmp_path: Path) -> Path:
    """A copy of the store, to be damaged."""
    return Path(shutil.copytree(store, tmp_path / "copied"))


@pytest.fixture(scope="session")
def plan_file(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of 10 steps over the store."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    gm.Plan({"web": gm.open(store)}, seq_len=32, batch_size=4, seed=1, steps=10).save(path)
    return path


@pytest.fixture
def checkpoint(plan_file: Path, tmp_path: Path) -> Path:
    """The state of a loader of the plan before step 5."""
    loader = gm.Loader(gm.load_plan(plan_file), threads=0)
    loader.seek(5)
    (tmp_path / "checkpoint.json").write_text(json.dumps(loader.state_dict()))
    return tmp_path / "checkpoint.json"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A headerless file of uint16 tokens, EOS 256."""
    tiny_store(tmp_path / "bare", shards=1)
    return tmp_path / "bare" / "part-0.bin"


@pytest.fixture(scope="session")
def recorded(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 99 steps with the losses of its rows: those that hold the document d7 have a high one."""
    folder = tmp_path_factory.mktemp("run")
    plan = gm.Plan({"web": gm.open(store)}, seq_len=32, batch_size=4, seed=1, steps=99)
    high = {(seen.step, seen.row) for seen in plan.find("d7")}
    with gm.Loader(plan, threads=0) as loader:
        loader.record(folder / "served.parquet")
        for step, _ in enumerate(loader):
            loader.record_loss([9.0 if (step, row) in high else 3.0 + 0.01 * (step % 5) for row in range(4)])
    return folder
