"""How fast loaders deliver the same tokens: Gristmill, its peers, and a bare numpy gather.

    python benchmarks/loader.py [--quick] [--rounds N] [--only NAME,NAME]

Results go to benchmarks/results/loader.json and loader.md. README.md says what is measured and how.
"""

import argparse
import dataclasses
import json
import sys

from contenders.registry import ENTRIES, YARDSTICK, Entry, Setting
from harness.client import BENCHMARKS, ContenderError, WorkerProcess, end_with_workers
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, TOKENS, Corpus
from harness.machine import facts, load
from harness.outcome import Outcome, as_data
from harness.progress import Progress
from harness.render import markdown
from harness.rounds import FULL, QUICK, Field, Run, Timing
from harness.starts import Starter
from harness.targets import judge

RESULTS = BENCHMARKS / "results"


def main() -> int:
    """Measure, write the results, and print the report; 1 when a contender failed."""
    end_with_workers()
    arguments = _parse()
    timing = _timing(arguments)
    machine = facts()
    with Progress() as progress:
        outcomes = _measure(_entries(arguments.only), Corpus(BENCHMARKS / "data"), timing, progress)
    report = _write(outcomes, timing, machine | {"load_after": load()})
    print(report)
    return int(any(outcome.errors for outcome in outcomes))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the speed of loaders on the same tokens.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, help="how many rounds, instead of the usual number")
    parser.add_argument("--only", help="names of contenders, with commas; the bare gather always takes part")
    return parser.parse_args()


def _timing(arguments: argparse.Namespace) -> Timing:
    timing = QUICK if arguments.quick else FULL
    return dataclasses.replace(timing, rounds=arguments.rounds) if arguments.rounds else timing


def _entries(only: str | None) -> list[Entry]:
    if only is None:
        return list(ENTRIES)
    wanted = {name.strip() for name in only.split(",")}
    names = {entry.name for entry in ENTRIES}
    if unknown := wanted - names:
        sys.exit(f"no such contender: {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return [entry for entry in ENTRIES if entry.name in wanted | {YARDSTICK}]


def _measure(entries: list[Entry], corpus: Corpus, timing: Timing, progress: Progress) -> list[Outcome]:
    progress.say("making the corpus")
    corpus.make()
    unprepared = _prepare(entries, corpus, progress)
    ready = [entry for entry in entries if entry.name not in unprepared]
    with Field(ready, corpus, progress) as field:
        runs = field.measure(timing)
    outcomes = [Outcome(entry, [run for run in runs if run.entry == entry]) for entry in ready]
    outcomes = [_with_start(outcome, corpus, timing, progress) for outcome in outcomes]
    return outcomes + [_unprepared(entry, unprepared[entry.name]) for entry in entries if entry not in ready]


def _prepare(entries: list[Entry], corpus: Corpus, progress: Progress) -> dict[str, str]:
    """Let each contender write its files, in a process of its own; gives the errors by name."""
    errors = {}
    for entry in entries:
        progress.say(f"preparing: {entry.name}")
        try:
            with WorkerProcess(entry, Setting(), corpus) as worker:
                worker.ask("prepare")
        except ContenderError as error:
            errors[entry.name] = str(error)
    return errors


def _unprepared(entry: Entry, error: str) -> Outcome:
    return Outcome(entry, [Run(entry, setting, error=error) for setting in entry.settings])


def _with_start(outcome: Outcome, corpus: Corpus, timing: Timing, progress: Progress) -> Outcome:
    """Add the figures of starting, taken in the contender's best setting."""
    if not outcome.best.median:
        return outcome
    progress.say(f"starting: {outcome.entry.name}")
    starter = Starter(outcome.entry, outcome.best.setting, corpus)
    try:
        return dataclasses.replace(outcome, start=starter.measure(timing.fresh))
    except ContenderError as error:
        return dataclasses.replace(outcome, start_error=str(error))


def _write(outcomes: list[Outcome], timing: Timing, machine: dict[str, str | int | float]) -> str:
    results = {
        "machine": machine,
        "corpus": {"tokens": TOKENS, "seq_len": SEQ_LEN, "batch_size": BATCH_SIZE, "seed": SEED},
        "timing": dataclasses.asdict(timing),
        "contenders": as_data(outcomes),
        "targets": judge(outcomes),
    }
    report = markdown(results)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "loader.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "loader.md").write_text(report)
    return report


if __name__ == "__main__":
    sys.exit(main())
