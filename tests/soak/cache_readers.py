"""Eight processes that read one plan through one cache, killed at random moments: a program of test_shared_cache.

It warms up on the store on disk, then forks readers of the one in the bucket, since a fresh interpreter for each of a
thousand would take an hour; nothing was asked of the bucket before the fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import gristmill as gm

READERS, WRONG, HANG_SECONDS = 8, 3, 120
NEAR = gm.PlanOptions(locality=gm.Locality(block=1024, window=3))


def plan_of(path: str) -> gm.Plan:
    return gm.Plan(gm.open(path), seq_len=64, batch_size=8, seed=3, options=NEAR)


def read(address: str, sums: np.ndarray, rank: int, seed: int) -> int:
    """Some steps from a random one on, of one rank; how it ended."""
    rng = random.Random(seed)
    loader = gm.Loader(plan_of(address), rank, READERS, keys="labels", readahead_bytes=1 << 18)
    loader.seek(rng.randrange(len(sums) - 40))
    for step, batch in zip(range(loader.step, loader.step + 40), loader, strict=False):
        if int(batch["input_ids"].sum()) + int(batch["labels"].sum()) != sums[step, rank]:
            return WRONG
    loader.close(wait=True)
    return 0


def fork_reader(address: str, sums: np.ndarray, rank: int, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = read(address, sums, rank, seed)
        finally:
            os._exit(code)
    return pid


def held(cache: Path) -> int:
    found = 0
    for path in cache.rglob("*.part*"):
        try:
            found += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return found


def main(here: str, address: str, cache: Path, kills: int) -> None:
    loaders = [gm.Loader(plan_of(here), rank, READERS, keys="labels", threads=0) for rank in range(READERS)]
    sums = np.array([[int(b["input_ids"].sum()) + int(b["labels"].sum()) for b in loader] for loader in loaders]).T
    rng, counts = random.Random(5), {"kills": 0, "ended": 0, "wrong": 0, "failed": 0, "hangs": 0, "most bytes": 0}
    running: dict[int, tuple[int, float, bool]] = {}
    free, number = list(range(READERS)), 0
    while counts["kills"] < kills or running:
        while free and counts["kills"] < kills:
            rank, number, dies = free.pop(), number + 1, rng.random() < 0.95
            until = time.monotonic() + (rng.uniform(0, 0.8) if dies else HANG_SECONDS)
            running[fork_reader(address, sums, rank, number)] = rank, until, dies
        for pid, (rank, until, dies) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                counts["kills" if dies else "hangs"] += 1
            elif ended:
                code = os.waitstatus_to_exitcode(status)
                counts["ended" if code == 0 else "wrong" if code == WRONG else "failed"] += 1
            else:
                continue
            del running[pid]
            free.append(rank)
        counts["most bytes"] = max(counts["most bytes"], held(cache))
        time.sleep(0.005)
    last = [fork_reader(address, sums, rank, 10**6 + rank) for rank in range(READERS)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in last]
    print(json.dumps({**counts, "wrong afterwards": sum(map(bool, codes))}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
