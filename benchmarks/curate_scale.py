"""Memory and speed of a whole `prepare` as the text grows: clean, four filter families, exact and near dedup, tokenise.

    python benchmarks/curate_scale.py                   0.5 and 5 GB, 2 workers; a quarter of an hour, 20 GB of disk
    python benchmarks/curate_scale.py --gigabytes 0.25 1

The text is that of curate.py, copied with words exchanged (see README.md): every copy brings new chunks and n-grams, so
that tables of words grow faster than in one's own text. Memory is the resident memory of the process tree, sampled ten
times a second; pages that processes share count for each. Results go to benchmarks/results/curate_scale.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from corpus import english, write
from curation.side import BENCHMARKS
from curation.texts import reworded, text_bytes
from curation.whole import whole_run
from harness.machine import facts, load
from harness.progress import Progress

DATA, RESULTS = BENCHMARKS / "data" / "curate", BENCHMARKS / "results"
MEGABYTES = 24
WORKERS = "2"
MOST_BYTES = 4e9


def main() -> int:
    """Measure, print, and write the results; 1 if a run needed more than 4 GB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.5, 5.0], help="how much text, for each run")
    sizes = parser.parse_args().gigabytes
    machine = facts()
    DATA.mkdir(parents=True, exist_ok=True)
    with Progress() as progress:
        runs = [_measure(size, progress) for size in sizes]
    report = {"workers": int(WORKERS), "runs": runs, "machine": machine | {"load_after": load()}}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "curate_scale.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return int(any(run["peak_bytes"] > MOST_BYTES for run in runs))


def _measure(gigabytes: float, progress: Progress) -> dict[str, Any]:
    """One run over a text of that size, which is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        progress.say(f"making {gigabytes} GB of text")
        _make(Path(folder), gigabytes)
        size = text_bytes(Path(folder))
        progress.say(f"preparing {gigabytes} GB of text")
        run = whole_run("gristmill", Path(folder), WORKERS)
    return {"text_bytes": size, "megabytes_a_second": size / 1e6 / run["process_seconds"], **run}


def _make(folder: Path, gigabytes: float) -> None:
    documents = [(row["id"], row["text"]) for row in english(DATA, MEGABYTES).documents()]
    for copy in range(round(gigabytes * 1000 / MEGABYTES)):
        write(folder / f"{copy:04d}.jsonl", reworded(documents, copy))


if __name__ == "__main__":
    raise SystemExit(main())
