"""Readers killed with SIGKILL at random moments, resumed from their last checkpoint, on other world sizes too."""

import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import random_documents, tiny_store

READER = """
import json, os, sys, time
import gristmill as gm

plan_file, state_file, rank, world_size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
loader = gm.Loader(gm.load_plan(plan_file), rank, world_size, keys=("labels",))
if os.path.exists(state_file):
    loader.load_state_dict(json.load(open(state_file)))
for batch in loader:
    total = int(batch["input_ids"].sum()) + int(batch["labels"].sum())
    print(loader.step - 1, total, flush=True)
    with open(state_file + ".tmp", "w") as file:
        json.dump(loader.state_dict(), file)
    os.replace(state_file + ".tmp", state_file)
    time.sleep(0.002)
"""


@pytest.fixture
def plan_file(tmp_path):
    store = tiny_store(tmp_path / "web", random_documents(400, seed=2), shards=3)
    phases = [gm.Phase(60, seq_len=8), gm.Phase(90, batch_size=4)]
    options = gm.PlanOptions(unit=16, phases=phases, skip=[(20, 25)])
    gm.Plan({"web": store}, seq_len=16, batch_size=8, steps=150, options=options).save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def run(plan_file, state_file, world_size, kill_after=None):
    """One rank after another; with kill_after each is killed that many seconds after its first batch."""
    sums = {}
    for rank in range(world_size):
        own = state_file.with_suffix(f".{rank}")
        if state_file.exists():
            own.write_bytes(state_file.read_bytes())
        command = [sys.executable, "-c", READER, str(plan_file), str(own), str(rank), str(world_size)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline()] if kill_after is not None else []
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        assert process.wait() == (0 if kill_after is None else -signal.SIGKILL)
        for line in lines:
            if line.endswith("\n"):
                step, total = map(int, line.split())
                sums.setdefault(step, []).append(total)
        last = json.loads(own.read_text())
        own.unlink()
    state_file.write_text(json.dumps(last))
    return {step: sum(parts) for step, parts in sums.items()}


def test_killed_readers_go_on_where_they_were_on_any_number_of_ranks(plan_file, tmp_path):
    whole = run(plan_file, tmp_path / "whole.json", 1)
    rng = random.Random(0)
    pieced: dict[int, int] = {}
    for _ in range(3):
        pieced |= run(plan_file, tmp_path / "pieced.json", 1, kill_after=rng.uniform(0.02, 0.12))
    assert 0 < len(pieced) < len(whole)
    pieced |= run(plan_file, tmp_path / "pieced.json", 2)
    assert pieced == whole
    assert sorted(whole) == [step for step in range(150) if not 20 <= step < 25]
    assert np.unique(list(whole.values())).size > 100
