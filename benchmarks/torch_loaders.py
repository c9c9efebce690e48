"""What torch costs: TorchLoader beside the numpy loader, and BatchDataset beside its peers under a DataLoader.

    python benchmarks/torch_loaders.py [--rounds N]

Results go to benchmarks/results/torch_loaders.json and torch_loaders.md; about four minutes. Contenders, corpus and
rounds are those of loader.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from typing import Any

from contenders.registry import ENTRIES, Entry, Setting
from harness.client import BENCHMARKS, ContenderError, WorkerProcess, end_with_workers
from harness.corpus import BATCH_SIZE, SEQ_LEN, Corpus
from harness.machine import facts, load
from harness.outcome import ratio
from harness.progress import Progress
from harness.render import table
from harness.rounds import Field, Run, Timing

RESULTS = BENCHMARKS / "results"
TIMING = Timing(rounds=7, seconds=1.0, warm_up=0.3, fresh=0)
THREADS = (Setting(0, threads=2), Setting(0))
WORKERS = (Setting(2),)

LARGE, SMALL = f"{BATCH_SIZE} x {SEQ_LEN:,}", "8 x 1,024"
LOADERS = tuple(
    Entry(f"{name}, {shape}", module, "gristmill", "global", peer=False, settings=THREADS)
    for name, shape, module in (
        ("Loader", LARGE, "gristmill_file"),
        ("TorchLoader", LARGE, "torch_loader"),
        ("Loader", SMALL, "gristmill_small"),
        ("TorchLoader", SMALL, "torch_loader_small"),
    )
)
OURS = "gristmill BatchDataset"
NO_DATALOADER = "grain"  # has worker processes of its own, not those of torch
PEERS = (
    Entry("bare gather", "bare_gather_in_workers", "torch", "global", settings=WORKERS),
    Entry("nanoGPT get_batch", "nanogpt_in_workers", "torch", "random offsets", settings=WORKERS),
    *(
        dataclasses.replace(entry, settings=WORKERS)
        for entry in ENTRIES
        if entry.peer and Setting(2) in entry.settings and entry.name != NO_DATALOADER
    ),
)
IN_WORKERS = (Entry(OURS, "torch_batches", "gristmill", "global", peer=False, settings=WORKERS), *PEERS)
WANTED_OF_NUMPY, WANTED_OF_PEERS = 0.8, 1.0


def main() -> int:
    """Measure, write the results, and print the report; 1 when a contender failed."""
    end_with_workers()
    parser = argparse.ArgumentParser(description="Compare loaders that give tensors.")
    parser.add_argument("--rounds", type=int, default=TIMING.rounds, help="how many rounds")
    timing, machine = dataclasses.replace(TIMING, rounds=parser.parse_args().rounds), facts()
    with Progress() as progress:
        runs, versions = _measure(Corpus(BENCHMARKS / "data"), timing, progress)
    results = {
        "machine": machine | {"load_after": load()},
        "versions": versions,
        "timing": dataclasses.asdict(timing),
        "runs": [_run_data(run) for run in runs],
        "targets": [*_against_numpy(runs), _against_peers(runs)],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "torch_loaders.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "torch_loaders.md").write_text(_report(results))
    print(_report(results))
    return int(any(run.error for run in runs))


def _measure(corpus: Corpus, timing: Timing, progress: Progress) -> tuple[list[Run], dict[str, str]]:
    progress.say("making the corpus")
    corpus.make()
    entries = [*LOADERS, *IN_WORKERS]
    versions = {entry.distribution: _prepare(entry, corpus, progress) for entry in entries}
    with Field(entries, corpus, progress) as field:
        return field.measure(timing), versions


def _prepare(entry: Entry, corpus: Corpus, progress: Progress) -> str:
    """Let a contender write its files; gives its version."""
    progress.say(f"preparing: {entry.name}")
    try:
        with WorkerProcess(entry, entry.settings[0], corpus) as worker:
            worker.ask("prepare")
            return str(worker.ask("hello", distribution=entry.distribution)["version"])
    except ContenderError as error:
        return f"failed: {error}"  # and fails again when the rounds open it


def _run_data(run: Run) -> dict[str, Any]:
    return {
        "name": run.entry.name,
        "setting": str(run.setting),
        "order": run.entry.order,
        "in_workers": run.setting in WORKERS,
        "tokens_per_second": {"median": run.median, "rounds": run.rates},
        "cpu_seconds_per_billion_tokens": 1e9 * run.cpu_seconds / run.tokens if run.tokens else None,
        "error": run.error,
    }


def _against_numpy(runs: list[Run]) -> list[dict[str, Any]]:
    """TorchLoader by the numpy loader of the same shape and threads."""
    by_name = {(run.entry.name, run.setting): run for run in runs}
    return [
        _verdict(
            f"TorchLoader at least {WANTED_OF_NUMPY:g} times Loader, {shape}, {setting.threads} threads",
            by_name[f"TorchLoader, {shape}", setting],
            by_name[f"Loader, {shape}", setting],
            WANTED_OF_NUMPY,
        )
        for shape in (LARGE, SMALL)
        for setting in THREADS
    ]


def _against_peers(runs: list[Run]) -> dict[str, Any]:
    """BatchDataset by whoever is fastest under a DataLoader with 2 workers."""
    names = {entry.name for entry in PEERS}
    ours = next(run for run in runs if run.entry.name == OURS)
    fastest = max((run for run in runs if run.entry.name in names), key=lambda run: run.median)
    what = f"{OURS} at least {WANTED_OF_PEERS:g} times the fastest peer, {fastest.entry.name}"
    return _verdict(what, ours, fastest, WANTED_OF_PEERS)


def _verdict(what: str, run: Run, rival: Run, wanted: float) -> dict[str, Any]:
    measured = ratio(run, rival)
    cpu = (rival.cpu_seconds / rival.tokens) / (run.cpu_seconds / run.tokens) if measured else None
    met = None if measured is None else measured >= wanted
    return {"target": what, "measured": measured, "measured_by_cpu": cpu, "met": met}


def _report(results: dict[str, Any]) -> str:
    """The results as markdown."""
    timing, runs = results["timing"], results["runs"]
    head = ["contender", "Mtok/s (lowest to highest round)", "CPU s / 10⁹ tokens"]
    threads = [[run["name"], run["setting"], *_speed(run)] for run in runs if not run["in_workers"]]
    workers = [[run["name"], run["order"], *_speed(run)] for run in runs if run["in_workers"]]
    errors = [f"- {run['name']}, {run['setting']}: {run['error']}" for run in runs if run["error"]]
    facts_ = {**results["machine"], **results["versions"]}
    return "\n".join(
        [
            "# Loaders that give tensors",
            "",
            f"The corpus of loader.md, int64 out, torch with one thread. Medians of {timing['rounds']} interleaved "
            f"rounds of {timing['seconds']:g} s; {results['machine']['cores']} cores.",
            "",
            "## Targets",
            "",
            "Measured is the median of the ratios within a round; by CPU, the ratio of processor time a token, which "
            "company on the machine changes less.",
            "",
            *table(["target", "measured", "by CPU", "met"], [_target_row(target) for target in results["targets"]]),
            "",
            "## TorchLoader and the numpy loader",
            "",
            *table([head[0], "setting", *head[1:]], threads),
            "",
            f"## Under a DataLoader with 2 workers, {LARGE}",
            "",
            *table([head[0], "order", *head[1:]], workers),
            "",
            *(["## Failures", "", *errors, ""] if errors else []),
            "## Machine and versions",
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in facts_.items()),
            "",
        ]
    )


def _speed(run: dict[str, Any]) -> list[str]:
    if run["error"]:
        return ["failed", "-"]
    rates = [rate / 1e6 for rate in run["tokens_per_second"]["rounds"]]
    speed = f"{statistics.median(rates):,.1f} ({min(rates):,.1f} to {max(rates):,.1f})"
    return [speed, f"{run['cpu_seconds_per_billion_tokens']:.2f}"]


def _target_row(target: dict[str, Any]) -> list[str]:
    if target["met"] is None:
        return [target["target"], "not measured", "-", "-"]
    figures = [f"{target['measured']:.2f}", f"{target['measured_by_cpu']:.2f}"]
    return [target["target"], *figures, "yes" if target["met"] else "**no**"]


if __name__ == "__main__":
    sys.exit(main())
