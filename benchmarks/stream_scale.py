"""A stream over ten million documents in a hundred files: what it takes to resume anywhere, and what memory it holds.

    python benchmarks/stream_scale.py [--documents 10000000] [--steps 600]
    python benchmarks/stream_scale.py --hour jsonl|tar --workers 0|2

`--hour` walks over as many tokens as an hour of training at a million a second takes, and tells what memory is held.
Results go to benchmarks/results/stream_scale.json, each under its own key. Files are written to benchmarks/data and
removed.
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
from gristmill.streams.state import as_text, sealed
from harness.client import BENCHMARKS
from harness.machine import facts, load
from harness.processes import memory_bytes

FILES, SEQ_LEN = 100, 2048
HOUR_TOKENS = 3_600 * 1_000_000
RESULTS = BENCHMARKS / "results" / "stream_scale.json"
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


def write_tars(folder: Path, documents: int) -> None:
    """Tars with texts of about 8 KB, in as many files."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(_WORDS.split(), 40 * 35)) for _ in range(1000)]
    for i in range(FILES):
        with gm.ShardWriter(folder / f"{i:03d}-%d.tar") as shards:
            for j in range(documents // FILES // 40):
                shards.write({"__key__": f"{j:06d}", "txt": texts[(7 * j + i) % 1000]})


def resident() -> float:
    """MB of this process and its workers, what they share counted once."""
    return memory_bytes(os.getpid())["anonymous"] / 1e6


def state_at(batches: Any, share: float) -> Any:
    """A state in which every lane has come so far in the first epoch, in the middle of a block."""
    turn = int(share * len(batches.units[0]) / batches.batch_size)
    lanes = np.tile([turn, 0, 20 if turn else 0], (batches.batch_size, 1))
    return sealed({**batches.loader().state_dict(), "step": turn * 100, "lanes": as_text(lanes)})


def resumed(batches: Any, share: float) -> tuple[float, float]:
    """Seconds, and those of the processor, from a state to the next batch, where one was served before."""
    state = state_at(batches, share)
    began = time.perf_counter(), time.process_time()
    with batches.loader() as loader:
        loader.load_state_dict(state)
        next(iter(loader))
        return time.perf_counter() - began[0], time.process_time() - began[1]


def walked(batches: Any, steps: int, times: int = 10, **options: int) -> dict[str, object]:
    """Memory after each of `times` parts of `steps`, and tokens a second."""
    held = []
    with batches.loader(**options) as loader:
        for step, _ in zip(range(steps), loader, strict=False):
            if (step + 1) % max(steps // times, 1) == 0:
                held.append(round(resident()))
        return {"steps": steps, "resident_mb": held, "tokens_per_second": loader.stats()["tokens_per_second"]}


def stream(folder: Path, batch_size: int) -> Any:
    return gm.stream(str(folder)).filter("length", min_chars=20).tokenize("gpt2").pack(SEQ_LEN).batch(batch_size)


def hour(folder: Path, workers: int) -> dict[str, object]:
    """An hour's worth of units, with 64 rows."""
    figures = walked(stream(folder, 64), HOUR_TOKENS // (64 * SEQ_LEN), 30, workers=workers)
    print(f"{folder.name}, {workers} workers: {figures}")
    return figures


def measured(folder: Path, batch_size: int, steps: int) -> dict[str, object]:
    """Listing and cutting, resumes at each share, and a walk."""
    began = time.perf_counter()
    batches = stream(folder, batch_size)
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


def kept(figures: dict[str, object]) -> None:
    """Write figures over those of the same names, and leave the others."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(before | figures, indent=1) + "\n")


def main() -> None:
    """Write the files, measure with 8 and 64 rows or walk for an hour's worth, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--hour", choices=["jsonl", "tar"])
    parser.add_argument("--workers", type=int, default=0)
    asked = parser.parse_args()
    folder = BENCHMARKS / "data" / "stream_scale" / (asked.hour or "jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (write_tars if asked.hour == "tar" else write_files)(folder, asked.documents)
        before = load()
        if asked.hour:
            found = hour(folder, asked.workers)
            kept({f"hour, {asked.hour}, {asked.workers} workers": {"machine": facts(), **found}})
            return
        rows = {str(rows): measured(folder, rows, asked.steps) for rows in (8, 64)}
    finally:
        shutil.rmtree(folder)
    kept({"machine": facts(), "load": [before, load()], "documents": asked.documents, "rows": rows})


if __name__ == "__main__":
    main()
