"""A loader's state, given to a loader, and as a file to `gristmill inspect` (a quarter: its options take the time)."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _values import change_values

import gristmill as gm
from gristmill.cli import main
from gristmill.core.errors import GristmillError
from gristmill.testing import random_documents, tiny_store
from harness import mutate as change_bytes

CASES = (300, 100_000)
_kept: dict[Path, gm.Plan] = {}


def _plan(folder: Path) -> gm.Plan:
    if folder not in _kept:
        store = tiny_store(folder / "store", random_documents(20))
        plan = gm.Plan({"web": store}, seq_len=8, batch_size=4, steps=50, options=gm.PlanOptions(skip=[(3, 5)]))
        plan.save(folder / "plan.json")
        _kept[folder] = plan
    return _kept[folder]


def seeds() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        loader = gm.Loader(_plan(Path(folder)), threads=0)
        states: list[Any] = []
        for step in (7, 0, 4, 50):
            loader.seek(step)
            states.append(loader.state_dict())
    states += [{**states[0], "parts": None}, {**states[0], "step": 10**30}, {**states[0], "digest": []}, [], None]
    return [json.dumps(state).encode() for state in states]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return change_values(rng, seeds) if rng.random() < 0.8 else change_bytes(rng, seeds)


def _inspect(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(["inspect", str(path), "--json"])
    assert code == 0 or (code in (1, 2) and len(said.getvalue().splitlines()) == 1), said.getvalue()


def attempt(data: bytes, folder: Path) -> None:
    plan = _plan(folder)
    if sum(data) % 4 == 0:
        _inspect(data, folder / "state.json")
    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return
    loader = gm.Loader(plan, threads=0)
    try:
        loader.load_state_dict(state)
    except GristmillError:
        assert loader.step == 0
        raise
    assert loader.step == state["step"]
