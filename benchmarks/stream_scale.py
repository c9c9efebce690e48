"""A stream over ten million documents in a hundred files: what it takes to resume anywhere, and what memory it holds.

    python benchmarks/stream_scale.py [--documents 10000000] [--steps 600]

Results go to benchmarks/results/stream_scale.json. Files are written to benchmarks/data and removed.
"""

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
from gristmill.streams.state import as_text
from harness.client import BENCHMARKS
from harness.machine import facts, load

FILES, SEQ_LEN = 100, 2048
SHARES = (0.0, 0.001, 0.25, 0.5, 0.75, 0.999)
RUNS = 3
_WORDS = "the mill grinds what it is given and nobody asks of the flour where a river has been to that end"


def write_files(folder: Path, documents: int) -> None:
    """JSON lines of about 200 bytes, in a hundred files."""
    rng = np.random.default_rng(0)
    texts = [json.dumps(" ".join(rng.choice(_WORDS.split(), 35))) for _ in range(1000)]
    for i in range(FILES):
        rows = (f'{{"id": "{i}-{j}", "text": {texts[(7 * j + i) % 1000]}}}\n' for j in range(documents // FILES))
        (folder / f"{i:03d}.jsonl").write_text("".join(rows))


def resident() -> float:
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def state_at(batches: Any, share: float) -> Any:
    """A state in which every lane has come so far in the first epoch, in the middle of a block."""
    turn = int(share * len(batches.units[0]) / batches.batch_size)
    lanes = np.tile([turn, 0, 20 if turn else 0], (batches.batch_size, 1))
    return {**batches.loader().state_dict(), "step": turn * 100, "lanes": as_text(lanes)}


def resumed(batches: Any, share: float) -> tuple[float, float]:
    """Seconds, and those of the processor, from a state to the next batch, where one was served before."""
    state = state_at(batches, share)
    began = time.perf_counter(), time.process_time()
    with batches.loader() as loader:
        loader.load_state_dict(state)
        next(iter(loader))
        return time.perf_counter() - began[0], time.process_time() - began[1]


def walked(batches: Any, steps: int) -> dict[str, object]:
    """Memory after each tenth of `steps`, and tokens a second."""
    held = []
    with batches.loader() as loader:
        for step, _ in zip(range(steps), loader, strict=False):
            if (step + 1) % max(steps // 10, 1) == 0:
                held.append(round(resident()))
        return {"steps": steps, "resident_mb": held, "tokens_per_second": loader.stats()["tokens_per_second"]}


def measured(folder: Path, batch_size: int, steps: int) -> dict[str, object]:
    """Listing and cutting, resumes at each share, and a walk."""
    began = time.perf_counter()
    batches = gm.stream(str(folder)).filter("length", min_chars=20).tokenize("gpt2").pack(SEQ_LEN).batch(batch_size)
    units = len(batches.units[0])
    opened = time.perf_counter() - began
    resumed(batches, 0.0)
    times = {f"{share:.1%}": [resumed(batches, share) for _ in range(RUNS)] for share in SHARES}
    figures = {"units": units, "opened_seconds": opened, "resume_seconds": times, **walked(batches, steps)}
    shown = ", ".join(
        f"{share} {statistics.median(wall for wall, _ in each):.2f} s (processor {min(cpu for _, cpu in each):.2f})"
        for share, each in times.items()
    )
    print(
        f"{batch_size} rows, {units:,} units, opened in {opened:.2f} s; resumed at {shown}; {figures['resident_mb']} MB"
    )
    return figures


def main() -> None:
    """Write the files, measure with 8 and 64 rows, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=600)
    asked = parser.parse_args()
    folder = BENCHMARKS / "data" / "stream_scale"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_files(folder, asked.documents)
        before = load()
        found = {str(rows): measured(folder, rows, asked.steps) for rows in (8, 64)}
    finally:
        shutil.rmtree(folder)
    kept = {"machine": facts(), "load": [before, load()], "documents": asked.documents, "rows": found}
    (BENCHMARKS / "results" / "stream_scale.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
