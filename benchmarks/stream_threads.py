"""What threads of a stream bring: batches as fast as they come, and beside a trainer that takes 50 ms a step.

    python benchmarks/stream_threads.py [--rounds 3] [--seconds 4]

On the files of benchmarks/streams.py, in turns within one process. Results go to results/stream_threads.json.
"""

import argparse
import json
import statistics
import time
from typing import Any

import gristmill as gm
from harness.client import BENCHMARKS
from harness.machine import facts, load
from stream_parts import SEQ_LEN
from streams import BATCH, DATA, lay_out

THREADS, STEP_SECONDS = (0, 1, 2), (0.0, 0.05)


def run(batches: Any, threads: int, step: float, seconds: float) -> dict[str, float]:
    """Tokens a second, and milliseconds that a step waited, of which a trainer without data would see none."""
    with batches.loader(threads=threads) as loader:
        each = iter(loader)
        for _ in range(20):
            next(each)
        began, cpu, waited, steps = time.perf_counter(), time.process_time(), 0.0, 0
        while time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            next(each)
            waited += time.perf_counter() - asked
            time.sleep(step)  # as a program waits for a device
            steps += 1
        took, used = time.perf_counter() - began, time.process_time() - cpu
    tokens = steps * BATCH * SEQ_LEN
    return {"tokens_per_second": tokens / took, "tokens_per_cpu": tokens / used, "waited_ms": waited / steps * 1e3}


def measured(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Each setting's runs, in turns."""
    kinds = ("jsonl", "tar")
    streams = {kind: gm.stream(str(DATA / kind)).tokenize("gpt2").pack(SEQ_LEN).batch(BATCH, seed=0) for kind in kinds}
    found = [
        {"files": kind, "threads": threads, "step_seconds": step, "runs": []}
        for kind in kinds for step in STEP_SECONDS for threads in THREADS
    ]  # fmt: skip
    for _ in range(rounds):
        for each in found:
            each["runs"].append(run(streams[each["files"]], each["threads"], each["step_seconds"], seconds))
    return found


def main() -> None:
    """Measure, keep the figures, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args()
    lay_out()
    machine = facts()
    found = measured(asked.rounds, asked.seconds)
    kept = {"machine": machine | {"load_after": load()}, "seconds": asked.seconds, "settings": found}
    (BENCHMARKS / "results" / "stream_threads.json").write_text(json.dumps(kept, indent=1) + "\n")
    for each in found:
        rate, cpu, waited = (
            statistics.median(run[key] for run in each["runs"])
            for key in ("tokens_per_second", "tokens_per_cpu", "waited_ms")
        )
        print(
            f"{each['files']}, {each['threads']} threads, a step of {each['step_seconds'] * 1e3:.0f} ms: "
            f"{rate / 1e6:.1f} Mtok/s, {cpu / 1e6:.1f} a processor second, waited {waited:.2f} ms a step"
        )


if __name__ == "__main__":
    main()
