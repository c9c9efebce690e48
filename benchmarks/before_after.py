"""This tree against a commit of its history, side by side: starting, loading, preparing.

    python benchmarks/before_after.py a9bd510 [--rounds 7] [--megabytes 12] [--passes 20] [--cases first]
    python benchmarks/before_after.py a9bd510 --quick    one round of Python's manual and 50 passes: minutes

Each round runs every case once on each side, in a fresh process and in turns; a case reports seconds of its own, so
that imports count only where they are meant to. Ratios are of medians: above 1 this tree is faster. Compiled code is
kept between rounds; the first, which compiles, is not counted. Results go to benchmarks/results/before_after.*, those
of --quick or of some cases to the terminal alone: one round on a machine with other work tells a third, not a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from corpus import english, explained
from harness.machine import facts
from harness.progress import Progress
from measure import ROOT, tree_of

RESULTS = Path(__file__).parent / "results"
RULES = "[{gopher_quality: {}}, {gopher_repetition: {}}, {c4: {}}, {fineweb: {}}]"
# All rules that follow datatrove, with its words; --megabytes 24 is the case of which half of 8.2 s was asked.
FOLLOWING = ("gopher_quality", "gopher_repetition", "c4", "fineweb", "profanity")
DATATROVE = f"[{{language: {{keep: [en]}}}}, {', '.join(f'{{{rule}: {{variant: datatrove}}}}' for rule in FOLLOWING)}]"
RECIPE = """
out: {out}
sources: [{{name: text, paths: ["{text}"]}}]
filters: {rules}
dedup: [exact, near]
tokenizer: {tokenizer}
store: {{tokens_per_shard: 4000000, val_fraction: 0.05}}
"""
# What a process of a side runs: it prints seconds, by the wall and by its processors (children included).
TIMED = """
import os, sys, time
def timed(work):
    wall, cpu = time.perf_counter(), os.times()
    work()
    spent = os.times()
    print(time.perf_counter() - wall, sum(spent[:4]) - sum(cpu[:4]))
folder, passes = sys.argv[1], int(sys.argv[2])
"""
LOAD = """
import gristmill as gm
store = gm.open(f"{{folder}}/store/train")
plan = gm.Plan({{"a": store}}, seq_len={seq_len}, batch_size={rows}, seed=0, options=gm.PlanOptions(cut="{cut}"))
loader = gm.Loader(plan, keys={keys!r}, threads={threads})
for batch in loader: pass
def work():
    for _ in range(passes):
        loader.seek(0)
        for batch in loader: pass
timed(work)
"""


def load(seq_len: int, rows: int, threads: int, cut: str = "chunk", keys: tuple[str, ...] = ()) -> str:
    """Passes over tokens that were seen once before."""
    return LOAD.format(seq_len=seq_len, rows=rows, threads=threads, cut=cut, keys=keys)


CASES = {
    "import gristmill": "timed(lambda: __import__('gristmill'))",
    "gristmill --help": "import subprocess\ntimed(lambda: subprocess.run([sys.executable, '-c', "
    "'from gristmill.cli import main; main([\"--help\"])'], capture_output=True))",
    "open and first batch": "import gristmill as gm\ntimed(lambda: gm.Loader(gm.Plan({'a': gm.open(f'{folder}/store/"
    "train')}, seq_len=2048, batch_size=64), threads=0).batch(0))",
    "load 64 x 2,048": load(2048, 64, 0),
    "load 64 x 2,048, 2 threads": load(2048, 64, 2),
    "load 64 x 2,048 with labels and documents": load(2048, 64, 0, keys=("labels", "doc_ids")),
    "load 8 x 1,024": load(1024, 8, 0),
    "load 8 x 1,024, 2 threads": load(1024, 8, 2),
    "pack 64 x 2,048": load(2048, 64, 0, "pack", ("labels",)),
    "pack 64 x 2,048, 2 threads": load(2048, 64, 2, "pack", ("labels",)),
    "first pass 64 x 2,048": load(2048, 64, 0).replace("for batch in loader: pass\ndef", "def", 1)
    .replace("range(passes)", "range(1)"),
    "prepare: rules, exact, near": "import gristmill as gm, shutil\n"
    "shutil.rmtree(f'{folder}/made', ignore_errors=True)\n"
    "timed(lambda: gm.prepare(f'{folder}/made.yaml', options=gm.RunOptions(workers=2)))",
    "gristmill prepare: all rules of datatrove, gpt2": "import subprocess\n"
    "start = 'import sys; from gristmill.cli import main; sys.exit(main())'\n"  # as the command of every tree does
    "command = [sys.executable, '-c', start, 'prepare', '--recipe', f'{folder}/datatrove.yaml', '--overwrite']\n"
    "timed(lambda: subprocess.run(command, capture_output=True, check=True))",
}  # fmt: skip


class Side:
    """A tree and its own store, made by its own code."""

    def __init__(self, source: Path, folder: Path, text: Path, passes: int) -> None:
        self._source, self._folder, self._passes = source, folder, passes
        folder.mkdir()
        recipes = {"store": ("[]", "byte"), "made": (RULES, "byte"), "datatrove": (DATATROVE, "gpt2")}
        for name, (rules, tokenizer) in recipes.items():
            recipe = RECIPE.format(out=folder / name, text=text, rules=rules, tokenizer=tokenizer)
            (folder / f"{name}.yaml").write_text(recipe)
        self.run("import gristmill as gm\ngm.prepare(f'{folder}/store.yaml')\n"
                 "timed(lambda: gm.index(gm.open(f'{folder}/store/train'), 2048))")  # fmt: skip

    def run(self, code: str) -> tuple[float, float]:
        """Seconds by the wall and of processors."""
        env = {**os.environ, "PYTHONPATH": str(self._source / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", TIMED + code, str(self._folder), str(self._passes)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self._source}: {done.stderr}")
        wall, cpu = done.stdout.split()[-2:]
        return float(wall), float(cpu)


def measure(
    sides: dict[str, Side], cases: dict[str, str], rounds: int, progress: Progress
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Seconds by case and side, the sides in turns; the first round compiles and is thrown away."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {case: {side: [] for side in sides} for case in cases}
    for turn in range(rounds + 1):
        for case, code in cases.items():
            progress.say(f"round {turn} of {rounds}: {case}")
            for name in sides if turn % 2 else reversed(sides):
                found[case][name].append(sides[name].run(code))
    return {case: {side: runs[1:] for side, runs in by_side.items()} for case, by_side in found.items()}


def table(found: dict[str, dict[str, list[tuple[float, float]]]], commit: str) -> str:
    lines = [f"| case | {commit} (s) | this tree (s) | ratio, wall | ratio, processors |", "|---|---:|---:|---:|---:|"]
    for case, by_side in found.items():
        before, after = ([statistics.median(column) for column in zip(*runs, strict=True)] for runs in by_side.values())
        ratios = [f"{old / new:.2f}" if new else "" for old, new in zip(before, after, strict=True)]
        lines.append(f"| {case} | {before[0]:.3f} | {after[0]:.3f} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--quick", action="store_true", help="one round of Python's manual and 50 passes, for a look")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=12, help="of English text")
    parser.add_argument("--passes", type=int, default=20, help="over the tokens that are loaded")
    parser.add_argument("--cases", metavar="WORD", default="", help="only the cases that have this word")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.passes = 1, 50
    cases = {case: code for case, code in CASES.items() if chosen.cases in case}
    data = Path(__file__).parent / "data" / "curate"
    data.mkdir(parents=True, exist_ok=True)
    with Progress() as progress, tempfile.TemporaryDirectory(dir=data) as folder:
        progress.say("making the text and the stores")
        text, here = explained(data) if chosen.quick else english(data, chosen.megabytes), Path(folder)
        trees = {chosen.commit: tree_of(chosen.commit, str(here / "tree")), "this tree": ROOT}
        sides = {
            name: Side(tree, here / f"side-{i}", text.path, chosen.passes)
            for i, (name, tree) in enumerate(trees.items())
        }
        found = measure(sides, cases, chosen.rounds, progress)
    report = table(found, chosen.commit)
    print(report)
    if cases == CASES and not chosen.quick:
        keep(report, found, f"Medians of {chosen.rounds} rounds in turns, on {text.origin}. "
                            f"`python benchmarks/before_after.py {chosen.commit}`")  # fmt: skip


def keep(report: str, found: dict[str, dict[str, list[tuple[float, float]]]], about: str) -> None:
    (RESULTS / "before_after.json").write_text(json.dumps({"machine": facts(), "seconds": found}, indent=1) + "\n")
    (RESULTS / "before_after.md").write_text(f"# Before and after\n\n{about}\n\n{report}\n")


if __name__ == "__main__":
    main()
