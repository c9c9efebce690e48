"""How soon a data set of 234 Arrow files gives rows: opened later, and resumed anywhere; beside `datasets`.

    python benchmarks/arrow.py [--rounds N]

Needs `datasets`, torch and torchdata, as tests/requirements.txt has them. Every figure comes from a fresh process; what
it imports counts. Results go to benchmarks/results/arrow.json and arrow.md; about four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.machine import facts, load
from harness.render import table

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "arrow", HERE / "results"
FILES, ROWS_PER_FILE, BATCH = 234, 2000, 32
ROWS = FILES * ROWS_PER_FILE
PLACES = (0.01, 0.5, 0.99)
OPEN_SECONDS, RESUME_SECONDS, STATE_BYTES = 1.0, 1.0, 2000


def make_corpus() -> None:
    """234 Parquet files of 2,000 rows of 200 bytes, which `datasets` turns into an Arrow file each (94 MB in all)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = DATA / "parquet"
    if len(list(folder.glob("*.parquet"))) == FILES:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        texts = [f"{i} the mill grinds what it is given; " * 5 for i in ids]
        pq.write_table(pa.table({"id": list(ids), "text": texts}), folder / f"{number:03d}.parquet")


def arguments() -> dict[str, Any]:
    return {"path": "parquet", "data_files": str(DATA / "parquet" / "*.parquet"), "split": "train"}


def open_gristmill() -> Any:
    from gristmill.adapters.huggingface import fast_load_iterable_dataset

    if "datasets" in sys.modules:
        raise RuntimeError("the harness has imported datasets")
    return fast_load_iterable_dataset(**arguments(), cache_dir=str(DATA / "cache"), index_dir=DATA / "index")


def open_streaming() -> Any:
    import datasets

    return datasets.load_dataset(**arguments(), streaming=True)


def open_loaded() -> Any:
    import datasets

    return datasets.load_dataset(**arguments(), cache_dir=str(DATA / "cache")).to_iterable_dataset(num_shards=FILES)


def under_torchdata(open_dataset: Callable[[], Any]) -> Callable[[], Any]:
    """The same in a StatefulDataLoader with 2 workers; it gives lists of rows."""

    def open_loader() -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader(open_dataset(), batch_size=BATCH, num_workers=2, collate_fn=list)

    return open_loader


CONTENDERS = {
    "gristmill": open_gristmill,
    "datasets, streaming": open_streaming,
    "datasets, loaded, to_iterable_dataset": open_loaded,
    "gristmill in StatefulDataLoader": under_torchdata(open_gristmill),
    "datasets, streaming, in StatefulDataLoader": under_torchdata(open_streaming),
}


def prepare() -> None:
    """What the first load does, untimed: both kinds of cache, and the index."""
    import datasets

    from gristmill.adapters.huggingface import fast_load_iterable_dataset

    make_corpus()
    datasets.config.MAX_SHARD_SIZE = "100KB"
    fast_load_iterable_dataset(**arguments(), cache_dir=str(DATA / "cache"), index_dir=DATA / "index")


def first_id(item: Any) -> int:
    return int((item[0] if isinstance(item, list) else item)["id"])


def state_file(name: str, place: float) -> Path:
    return DATA / "states" / f"{name.replace(' ', '-')}-{place}.pickle"


def read_all(name: str) -> dict[str, Any]:
    """One pass, which leaves behind the states and what must follow them; rows a second and the ids read."""
    source = CONTENDERS[name]()
    items = ROWS // BATCH if "StatefulDataLoader" in name else ROWS
    wanted = {int(items * place): place for place in PLACES}
    ids, kept, began = 0, None, time.perf_counter()
    for count, item in enumerate(source, 1):
        if kept is not None:
            keep_state(name, *kept, first_id(item))
            kept = None
        if count in wanted:
            kept = (wanted[count], source.state_dict())
        ids += len(item) if isinstance(item, list) else 1
    return {"rows": ids, "rows_per_second": ids / (time.perf_counter() - began)}


def keep_state(name: str, place: float, state: Any, expected: int) -> None:
    path = state_file(name, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((state, expected)))


def open_first(name: str) -> dict[str, Any]:
    """Seconds from nothing imported to an open data set, and to its first row."""
    began = time.perf_counter()
    source = CONTENDERS[name]()
    opened = time.perf_counter()
    next(iter(source))
    return {"open": opened - began, "first": time.perf_counter() - began}


def resume(name: str, place: float) -> dict[str, Any]:
    """Seconds from nothing imported to the next row, those after opening, and whether it was the right row."""
    state, expected = pickle.loads(state_file(name, place).read_bytes())
    began = time.perf_counter()
    source = CONTENDERS[name]()
    opened = time.perf_counter()
    source.load_state_dict(state)
    found = first_id(next(iter(source)))
    ended = time.perf_counter()
    return {
        "whole": ended - began,
        "resume": ended - opened,
        "right": found == expected,
        "state_bytes": len(pickle.dumps(state)),
    }


def in_fresh_process(*task: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--task", *task], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, rounds: int) -> dict[str, Any]:
    """All figures of a contender: medians over the rounds."""
    outcome = in_fresh_process("read", name)
    opened = [in_fresh_process("open", name) for _ in range(rounds)]
    outcome |= {key: statistics.median(run[key] for run in opened) for key in ("open", "first")}
    for place in PLACES:
        runs = [in_fresh_process("resume", name, str(place)) for _ in range(rounds)]
        outcome[f"resume_{place}"] = statistics.median(run["resume"] for run in runs)
        outcome[f"whole_{place}"] = statistics.median(run["whole"] for run in runs)
        outcome["right"] = outcome.get("right", True) and all(run["right"] for run in runs)
        outcome["state_bytes"] = max(outcome.get("state_bytes", 0), *(run["state_bytes"] for run in runs))
    return outcome


def run_task(kind: str, *rest: str) -> None:
    if kind == "prepare":
        prepare()
        found: dict[str, Any] = {}
    elif kind == "resume":
        found = resume(rest[0], float(rest[1]))
    else:
        found = {"read": read_all, "open": open_first}[kind](*rest)
    print(json.dumps(found), flush=True)
    os._exit(0)  # a stream of `datasets` that is not read to its end may abort an interpreter that ends by itself


def judge(ours: dict[str, Any]) -> list[dict[str, Any]]:
    """What a later load, a resume and a state may cost, and whether they kept to it."""
    resumed = max(ours[f"whole_{place}"] for place in PLACES)
    found = [
        (f"first row of a later load under {OPEN_SECONDS:g} s", ours["first"], OPEN_SECONDS),
        (f"resume at any place under {RESUME_SECONDS:g} s, opening included", resumed, RESUME_SECONDS),
        (f"state under {STATE_BYTES:,} bytes", ours["state_bytes"], STATE_BYTES),
    ]
    return [{"target": target, "measured": measured, "met": measured < limit} for target, measured, limit in found]


def report(results: dict[str, Any]) -> str:
    """The results as markdown."""
    targets = [[t["target"], f"{t['measured']:.3g}", "yes" if t["met"] else "**no**"] for t in results["targets"]]
    resumed = [f"resume at {place:.0%}, s (after opening)" for place in PLACES]
    head = ["contender", "open s", "first row s", *resumed]
    rows = [
        [
            name,
            *(f"{outcome[key]:.2f}" for key in ("open", "first")),
            *(f"{outcome[f'whole_{place}']:.2f} ({outcome[f'resume_{place}']:.3f})" for place in PLACES),
            f"{outcome['state_bytes']:,}",
            "yes" if outcome["right"] else "no",
            f"{outcome['rows']:,}",
            f"{outcome['rows_per_second'] / 1000:.0f}",
        ]
        for name, outcome in results["contenders"].items()
    ]
    return "\n".join(
        [
            "# Data sets of Arrow files: opening and resuming",
            "",
            f"{FILES} files of {ROWS_PER_FILE:,} rows of 200 bytes, in the page cache; medians of {results['rounds']} "
            "fresh processes. Times begin before anything is imported; in brackets, from the opened data set to the "
            f"next row. A StatefulDataLoader has 2 workers and batches of {BATCH}, and resuming starts them.",
            "",
            *table([*head, "state bytes", "right row", "rows in a pass", "1,000 rows/s"], rows),
            "",
            "## Targets of gristmill",
            "",
            *table(["target", "measured", "met"], targets),
            "",
            "## Machine and versions",
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
            *(f"- {name} {version(name)}" for name in ("gristmill", "datasets", "torch", "torchdata")),
            "",
        ]
    )


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description="Compare how soon data sets of Arrow files give rows.")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes a figure")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_task(*options.task)
        return
    machine = facts()
    in_fresh_process("prepare")
    contenders = {name: measure(name, options.rounds) for name in CONTENDERS}
    results = {
        "contenders": contenders,
        "targets": judge(contenders["gristmill"]),
        "rounds": options.rounds,
        "machine": machine | {"load_after": load()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "arrow.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "arrow.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
