"""Killed again and again, with other recipes in between: what ends well has the bytes of a run that was left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RECIPES: dict[str, dict[str, Any]] = {
    "plain": {"dedup": ["exact", "near", "lines"]},
    "filtered": {"dedup": ["exact", "near"], "filters": [{"length": {"min_chars": 380}}]},
    "shuffled": {"dedup": ["exact"], "shuffle": True, "seed": 3},
    "packed": {"dedup": ["exact", "near", "lines"], "store": {"tokens_per_shard": 3000, "compression": "zstd"}},
}
Whole = tuple[Callable[[Path], list[object]], dict[str, bytes]]


def kill_after(arguments: list[object], seconds: float) -> bool:
    """Start a command and kill it and all of its processes; whether it was still at work."""
    command = [sys.executable, "-m", "gristmill.cli", *map(str, arguments)]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


@pytest.fixture(scope="session")
def recipe(raw: Path) -> Callable[[str, Path], Path]:
    """`recipe(name, out)`: a recipe's file, beside the output."""

    def write(name: str, out: Path) -> Path:
        store = {"tokens_per_shard": 5000, "val_fraction": 0.1}
        made = {"out": str(out), "tokenizer": "byte", "store": store, "sources": [{"name": "a", "paths": [str(raw)]}]}
        path = out.with_name(f"{out.name}-{name}.yaml")
        path.write_text(json.dumps({**made, **RECIPES[name]}))
        return path

    return write


@pytest.fixture(scope="session")
def fresh(recipe: Any, run: Any, content: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """`fresh(name)`: seconds and bytes of a recipe that is run once, and left alone."""
    made: dict[str, Any] = {}

    def once(name: str) -> Any:
        if name not in made:
            out, began = tmp_path_factory.mktemp("fresh") / name, time.monotonic()
            assert run(["prepare", "--recipe", recipe(name, out)]).returncode == 0
            made[name] = (time.monotonic() - began, content(out))
        return made[name]

    return once


def prepare_chain(rng: random.Random, recipe: Any, fresh: Any, run: Any, content: Any, out: Path) -> int:
    """Kills of `prepare`, by several recipes in one folder; how many of them met it at work."""
    kept = ["--work", out.with_suffix(".work")] if rng.random() < 0.5 else []
    killed = 0
    for _ in range(rng.randint(1, 4)):
        name = rng.choice(list(RECIPES))
        seconds = rng.uniform(0, 1.2 * fresh(name)[0])
        more = [*kept, "--overwrite", "--workers", rng.choice((1, 2))]
        killed += kill_after(["prepare", "--recipe", recipe(name, out), *more], seconds)
    name = rng.choice(list(RECIPES))
    ended = run(["prepare", "--recipe", recipe(name, out), *kept, "--overwrite"])
    assert ended.returncode == 0, ended.stderr
    assert content(out) == fresh(name)[1], f"{name}: {sorted(content(out).keys() ^ fresh(name)[1].keys())}"
    assert run(["verify", out]).returncode == 0
    return killed


def command_chain(rng: random.Random, whole: Whole, run: Any, content: Any, out: Path, kills: int) -> None:
    """Kills of another command."""
    command, expected = whole
    for _ in range(kills):
        kill_after([*command(out), *_over(command, out)], rng.uniform(0.2, 3))
    ended = run([*command(out), *_over(command, out)])
    assert ended.returncode == 0, ended.stderr
    assert content(out) == expected


def _over(command: Callable[[Path], list[object]], out: Path) -> list[str]:
    return ["--force" if command(out)[0] == "index" else "--overwrite"]


def test_chains_of_kills_and_changed_recipes_end_with_the_bytes_of_a_fresh_run(
    recipe: Any, fresh: Any, run: Any, content: Any, tmp_path: Path, soak: bool, record: Path | None
) -> None:
    rng = random.Random(4)
    kills = [prepare_chain(rng, recipe, fresh, run, content, tmp_path / f"{i}") for i in range(150 if soak else 1)]
    if record:
        (record / "kill-chains.json").write_text(json.dumps({"chains": len(kills), "kills": sum(kills)}) + "\n")


@pytest.mark.parametrize("name", ["index", "export", "import", "join"])
def test_a_command_that_was_killed_gives_the_same_bytes_when_it_is_run_again(
    name: str, commands: dict[str, Whole], run: Any, content: Any, place: Path, soak: bool
) -> None:
    rng = random.Random(name)
    for number in range(50 if soak else 1):
        command_chain(rng, commands[name], run, content, place / f"{name}-{number}", kills=3 if soak else 1)
