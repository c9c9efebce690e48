"""A mixed stream resumes at every step, again and again, on other numbers of ranks and workers, and after a kill."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch

from . import mixed_trainer
from .mixed_trainer import KEYS, STEPS, Run, line, mixed, write_inputs

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'set_vital' is deprecated")
# Ranks and worker processes, so that of each neither stays as it was.
PLACES = list(zip(itertools.cycle((1, 2, 3, 4)), (0, 1, 2, 4, 1, 0, 4, 2, 2, 4, 0, 1, 4, 2, 1, 0), strict=False))
QUICK = (0, 2, 3, 6, 9, 12, 15)  # their runs are in all of these places


def places(step: int) -> list[tuple[int, int]]:
    """Where a run goes on, three times running."""
    return [PLACES[(step + 5 * time) % len(PLACES)] for time in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mixed")
    write_inputs(made)
    return made


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[list[Any], list[Any]]:
    """The run that is not stopped: its batches, and its state before each."""
    loader = mixed(folder).loader(keys=KEYS, threads=0)
    batches, states = [], [loader.state_dict()]
    for batch in islice(loader, STEPS):
        batches.append({key: array.copy() for key, array in batch.items()})
        states.append(loader.state_dict())
    return batches, states


def equal(one: Any, other: Any) -> bool:
    return bool(one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one))


def test_a_mix_resumes_at_every_step_three_times_running(folder: Path, whole: Any, soak: bool) -> None:
    batches, states = whole
    for step in range(16) if soak else QUICK:
        state, at = states[step], step
        for time, place in enumerate(places(step)):
            run = Run(mixed(folder), json.loads(json.dumps(state)), *place)
            for batch in islice(run, 1 + time):
                assert equal(batch, batches[at]), (step, time, at)
                at += 1
            state = run.state()
            assert state == states[at], (step, time, at)


@pytest.mark.parametrize("steps", [QUICK, range(16)])
def test_every_number_of_ranks_meets_every_number_of_workers(steps: Any) -> None:
    found = {place for step in steps for place in places(step)}
    assert found == set(itertools.product((1, 2, 3, 4), (0, 1, 2, 4)))


def test_a_mix_that_is_killed_goes_on_elsewhere_to_the_same_batches(folder: Path, whole: Any) -> None:
    expected = [line(step, batch) for step, batch in enumerate(whole[0], 1)]
    log, runs = folder / "log", 0
    while not log.exists() or log.read_text().splitlines(keepends=True)[-1] != expected[-1]:
        place = map(str, [(3, 0), (2, 1), (4, 2), (1, 1)][runs % 4])
        process = subprocess.Popen([sys.executable, mixed_trainer.__file__, str(folder), *place])
        seen = len(log.read_text().splitlines()) if log.exists() else 0
        while process.poll() is None and runs < 3:
            if log.exists() and len(log.read_text().splitlines()) >= seen + 8:
                process.send_signal(signal.SIGKILL)
                break
            sleep(0.002)
        assert process.wait() == (-signal.SIGKILL if runs < 3 else 0)
        runs += 1
    found = log.read_text().splitlines(keepends=True)
    assert runs > 3 and list(dict.fromkeys(found)) == expected
