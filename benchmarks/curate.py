"""Curation speed and agreement: Gristmill and datatrove on the same rules, text and cores.

    python benchmarks/curate.py [--text FILE.jsonl] [--megabytes 24] [--share 4] [--rounds 3] [--no-large]

benchmarks/setup_datatrove.sh comes first. Results go to benchmarks/results/curate.json and curate.md; README.md says
what is measured and how.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from corpus import Text, english
from curation.agreement import agreement
from curation.cases import CASES, FAMILIES, LIBRARIES
from curation.report import markdown, targets
from curation.side import BENCHMARKS, Side
from curation.texts import Texts, lay_out, text_bytes
from curation.whole import whole_run
from harness.machine import facts, load
from harness.progress import Progress

DATA, RESULTS = BENCHMARKS / "data" / "curate", BENCHMARKS / "results"
COPIES = 10
WORKERS = "2"


def main() -> int:
    """Measure, write the results, and print the report."""
    arguments = _parse()
    machine = facts()
    DATA.mkdir(parents=True, exist_ok=True)
    with Progress() as progress, tempfile.TemporaryDirectory(dir=DATA) as folder:
        progress.say("making the text")
        text = Text(arguments.text, arguments.text.name) if arguments.text else english(DATA, arguments.megabytes)
        texts = lay_out(text, int(arguments.share * 1e6), COPIES if arguments.large else 0, Path(folder))
        results = {"rounds": arguments.rounds, "text": {"origin": text.origin, "documents": len(texts.documents)}}
        results |= _Benchmark(texts, Path(folder), arguments.rounds, progress).run(arguments.large)
    print(_write({**results, "machine": machine | {"load_after": load()}}))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare curation with datatrove's.")
    parser.add_argument("--text", type=Path, help="a JSONL file with `id` and `text`, instead of Debian's manuals")
    parser.add_argument("--megabytes", type=int, default=24, help="how much text to make")
    parser.add_argument("--share", type=float, default=4, help="megabytes of it that stages are timed on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-large", dest="large", action="store_false", help="leave out ten times the text")
    return parser.parse_args()


class _Benchmark:
    """One run of it over texts that are laid out."""

    def __init__(self, texts: Texts, folder: Path, rounds: int, progress: Progress) -> None:
        self._texts, self._rounds, self._progress = texts, rounds, progress
        self._folder, self._tokenizer = folder, str(folder / "tokenizer.json")

    def run(self, large: bool) -> dict[str, Any]:
        """All figures."""
        with ExitStack() as stack:
            core = max(os.sched_getaffinity(0))
            ours, theirs = (stack.enter_context(Side(name, core, DATA / f"{name}.log")) for name in _SIDES)
            ours.ask("tokenizer", path=self._tokenizer)
            stages = self._stages(ours, theirs)
            agreed = self._agreement(ours, theirs)
            versions = theirs.ask("versions")
        whole = self._whole(large)
        return {"stages": stages, "whole": whole, **self._apart(whole), "agreement": agreed, "versions": versions}

    def _stages(self, ours: Side, theirs: Side) -> dict[str, Any]:
        """Seconds of each case and round, a case on one side and then on the other."""
        texts = self._texts
        sizes = ours.ask("load", whole=str(texts.whole), share=str(texts.share), rest=str(texts.rest))
        theirs.ask("load", tokenizer=self._tokenizer, whole=str(texts.whole), share=str(texts.share))
        found: dict[str, Any] = {"gristmill": {}, "datatrove": {name: [] for name in (*CASES, *LIBRARIES)}}
        ours.ask("warm")
        for case in CASES:
            first = [ours.ask("time", case=case, texts=["whole"])[0] for _ in range(self._rounds)]
            found["gristmill"][case] = {"first_pass": first, "new": [], "again": []}
        for number in range(self._rounds):
            for case in (*CASES, *LIBRARIES):
                self._progress.say(f"round {number + 1}: {case}")
                if case in CASES:
                    _, new, again = ours.ask("time", case=case, texts=["rest", "share", "share"])
                    found["gristmill"][case]["new"].append(new)
                    found["gristmill"][case]["again"].append(again)
                found["datatrove"][case].append(theirs.ask("time", case=case, text="share"))
        return {**found, "share_bytes": sizes["share"], "whole_bytes": sizes["whole"]}

    def _agreement(self, ours: Side, theirs: Side) -> dict[str, Any]:
        """Decisions over all of the text, by family."""
        found = {}
        for family in FAMILIES:
            self._progress.say(f"agreement: {family}")
            decided = (side.ask("decide", family=family, text="whole") for side in (ours, theirs))
            found[family] = agreement(self._texts.documents, *decided)
        return found

    def _whole(self, large: bool) -> dict[str, Any]:
        """Whole runs, interleaved."""
        plans = {"gristmill, same text": ("gristmill", self._texts.parts, [WORKERS])}
        if large:
            plans["gristmill, ten times the text"] = ("gristmill", self._texts.large, [WORKERS])
        plans["datatrove"] = ("datatrove", self._texts.parts, [WORKERS, self._tokenizer])
        found: dict[str, Any] = {name: {"bytes": text_bytes(plan[1]), "runs": []} for name, plan in plans.items()}
        for number in range(self._rounds):
            for name, (side, inputs, arguments) in plans.items():
                self._progress.say(f"round {number + 1}: {name}, end to end")
                found[name]["runs"].append(whole_run(side, inputs, *arguments))
        return found

    def _apart(self, whole: dict[str, Any]) -> dict[str, Any]:
        """What a first run takes longer, with nothing compiled yet; and where the time of a run goes."""
        self._progress.say("a first run, which compiles")
        usual = whole["gristmill, same text"]
        cache = {"NUMBA_CACHE_DIR": str(self._folder / "numba")}
        first = whole_run("gristmill", self._texts.parts, WORKERS, variables=cache)["process_seconds"]
        profile = whole_run("gristmill", self._texts.whole, "1", "profile")
        return {
            "compiling_seconds": first - min(run["process_seconds"] for run in usual["runs"]),
            "profile": {**profile, "bytes": usual["bytes"]},
        }


_SIDES = ("gristmill", "datatrove")


def _write(results: dict[str, Any]) -> str:
    report = markdown(results)
    RESULTS.mkdir(exist_ok=True)
    results["targets"] = targets(results)
    (RESULTS / "curate.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "curate.md").write_text(report)
    return report


if __name__ == "__main__":
    raise SystemExit(main())
