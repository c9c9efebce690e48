"""A take-down list and a ledger at scale: how long they take, and what memory they need.

The store is that of benchmarks/scale.py (sparse tokens, real side files): 10,000 documents a shard, 100 million tokens.
Each figure is taken in a fresh process; a mix of two sources is asked about, which is the dearer case.

    python benchmarks/ledger.py                 make the store if need be, measure, write benchmarks/results/ledger.json
    python benchmarks/ledger.py --shards 10     the same, smaller, and nothing is written
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SHARDS, IDS, STEPS = 100, 100_000, 100_000
SEQ_LEN, BATCH_SIZE = 2048, 64


def measure(root: str, what: str, shards: int) -> dict[str, float]:
    """In a fresh process: one of the two questions."""
    import gristmill as gm
    from gristmill.core.progress import Quiet
    from gristmill.figures.ledger import make_ledger, take_down

    store = gm.open(f"{root}/train")
    size = {"seq_len": SEQ_LEN, "batch_size": BATCH_SIZE, "steps": STEPS}
    plan = gm.Plan({"a": store, "b": store}, {"a": "2/3", "b": "1/3"}, **size)
    plan.samples(0)  # compiled code is loaded before the clock starts
    picked = np.random.default_rng(0).choice(shards * 10_000, min(IDS, shards * 10_000), replace=False)
    ids = [f"doc-{number // 10_000:05d}-{number % 10_000:05d}" for number in picked.tolist()]
    began = time.perf_counter()
    if what == "take-down":
        found = take_down(plan, ids, STEPS).trained
    else:
        found = make_ledger(plan, STEPS, None, Quiet()).documents
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ids": len(ids), "documents": store.num_documents, "found": found, "seconds": round(seconds, 2),
            "megabytes": round(memory)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    root = HERE / "data" / f"scale-{chosen.shards}"
    if chosen.measure:
        print(json.dumps(measure(str(root), chosen.measure, chosen.shards)))
        return
    from scale import make_store

    make_store(root, chosen.shards)
    figures = {}
    for what in ("take-down", "ledger"):
        command = [sys.executable, __file__, "--shards", str(chosen.shards), "--measure", what]
        figures[what] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(what, figures[what])
    if chosen.shards == SHARDS:
        (HERE / "results" / "ledger.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
