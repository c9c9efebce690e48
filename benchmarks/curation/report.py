"""The results of the curation benchmark as markdown, and its targets."""

from __future__ import annotations

from statistics import median
from typing import Any

from curation.cases import CASES, FAMILIES, LIBRARIES
from harness.render import Row, table

Results = dict[str, Any]

_STAGE_TARGETS = {**dict.fromkeys((*FAMILIES, "chain"), 50), "minhash 16x8": 100, "minhash 14x8": 100, "tokenise": 50}
_AIM = 50
_EQUAL_DECISIONS, _EQUAL_REASONS = 0.995, 0.99
_MEMORY_LIMIT = 4e9


def stage_rows(stages: Results) -> list[Results]:
    """Each case in MB/s: medians over rounds, and the ratio of the medians."""
    size, rows = stages["share_bytes"] / 1e6, []
    for case in CASES:
        ours, theirs = stages["gristmill"][case], stages["datatrove"][case]
        new, again, other = (size / median(times) for times in (ours["new"], ours["again"], theirs))
        first_pass = stages["whole_bytes"] / 1e6 / median(ours["first_pass"])
        rows.append({"case": case, "new": new, "again": again, "first_pass": first_pass, "datatrove": other,
                     "times": first_pass / other, "times_new": new / other,
                     "wanted": _STAGE_TARGETS[case]})  # fmt: skip
    return rows


def whole_rows(whole: Results) -> list[Results]:
    """The whole runs in MB/s of the median, with the peak of memory over all rounds."""
    return [
        {
            "run": name,
            "megabytes": runs["bytes"] / 1e6,
            "seconds": (seconds := median(run["process_seconds"] for run in runs["runs"])),
            "speed": runs["bytes"] / 1e6 / seconds,
            "cpu_seconds": median(run["cpu_seconds"] for run in runs["runs"]),
            "peak_bytes": max(run["peak_bytes"] for run in runs["runs"]),
            "documents": runs["runs"][0]["documents"],
            "tokens": runs["runs"][0]["tokens"],
        }
        for name, runs in whole.items()
    ]


def targets(results: Results) -> list[Results]:
    """What was wanted, what was measured, and whether it is met."""
    found = [
        {
            "target": f"{row['case']}, {name}: {row['wanted']} times datatrove",
            "measured": row[times],
            "met": row[times] >= row["wanted"],
        }
        for row in stage_rows(results["stages"])
        for name, times in (("new documents", "times_new"), ("first pass", "times"))
    ]
    speeds = {row["run"]: row for row in whole_rows(results["whole"])}
    for name in ("gristmill, same text", "gristmill, ten times the text"):
        if name in speeds:
            times = speeds[name]["speed"] / speeds["datatrove"]["speed"]
            found.append(
                {"target": f"end to end, {name}: {_AIM} times datatrove", "measured": times, "met": times >= _AIM}
            )
            peak = speeds[name]["peak_bytes"]
            found.append({"target": f"memory, {name}: under 4 GB", "measured": peak / 1e9, "met": peak < _MEMORY_LIMIT})
    for family, figures in results["agreement"].items():
        met = figures["equal_decisions"] >= _EQUAL_DECISIONS and figures["equal_reasons"] >= _EQUAL_REASONS
        found.append(
            {
                "target": f"agreement, {family}: decisions 99.5 %, reasons 99 %",
                "measured": figures["equal_decisions"],
                "met": met,
            }
        )
    return found


def markdown(results: Results) -> str:
    """The whole report."""
    return "\n".join(
        [
            "# Curation against datatrove",
            "",
            _introduction(results),
            "",
            "## Targets",
            "",
            *table(["target", "measured", "met"], [_target_row(row) for row in targets(results)]),
            "",
            "## Stages, one core",
            "",
            *_stages(results["stages"]),
            "",
            "## End to end, two cores",
            "",
            *_whole(results),
            "",
            "## Where the time of a run goes, one core",
            "",
            *_profile(results["profile"]),
            "",
            "## Agreement",
            "",
            *_agreement(results["agreement"]),
            "",
            *_machine(results),
            "",
        ]
    )


def _introduction(results: Results) -> str:
    stages = results["stages"]
    return (
        f"Text: {stages['whole_bytes'] / 1e6:.1f} MB of English, {results['text']['documents']:,} documents, from "
        f"{results['text']['origin']}. Medians of {results['rounds']} interleaved rounds on the same core. "
        "README.md says how each figure is measured."
    )


def _stages(stages: Results) -> list[str]:
    head = ["stage", "gristmill, first pass MB/s", "new documents", "again", "datatrove MB/s", "times, first pass",
            "times, new documents"]  # fmt: skip
    rows = [
        [row["case"], f"**{row['first_pass']:.1f}**", f"{row['new']:.1f}", f"{row['again']:.1f}",
         f"{row['datatrove']:.2f}", f"**{row['times']:.0f}**", f"{row['times_new']:.0f}"]
        for row in stage_rows(stages)
    ]  # fmt: skip
    size = stages["share_bytes"] / 1e6
    others = [f"{name} {size / median(stages['datatrove'][name]):.1f} MB/s" for name in LIBRARIES]
    note = (
        "CPU seconds. Gristmill keeps what it learnt of words, so it has three figures: `first pass` is all of the "
        "text with empty tables, as in a run; `new documents` are "
        f"{size:.1f} MB that it has not seen, after the rest; `again` is these a second time. datatrove is timed on "
        f"the {size:.1f} MB, which it has seen before in all rounds but the first. "
        f"Other libraries, MinHash of 128 permutations: {', '.join(others)}."
    )
    return [*table(head, rows), "", note]


def _whole(results: Results) -> list[str]:
    head = ["run", "MB", "seconds", "CPU seconds", "MB/s", "peak memory MB", "documents left", "tokens"]
    rows = [
        [row["run"], f"{row['megabytes']:.1f}", f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}",
         f"{row['speed']:.2f}", f"{row['peak_bytes'] / 1e6:.0f}", f"{row['documents']:,}", f"{row['tokens']:,}"]
        for row in whole_rows(results["whole"])
    ]  # fmt: skip
    compiling = results["compiling_seconds"]
    note = (
        "From the start of the process to its end, imports included; CPU seconds do not count company. datatrove "
        "verifies no near duplicates and keeps no account, so it does less; what is left differs where clusters are "
        "cut differently. Ten times the text is made by exchanging words. The first run on a machine, which compiles, "
        "takes "
        f"{compiling:.1f} s more."
    )
    return [*table(head, rows), "", note]


def _profile(profile: Results) -> list[str]:
    size, total = profile["bytes"] / 1e6, profile["seconds"]
    steps = sorted(profile["steps"].items(), key=lambda step: -step[1])
    rows = [[name, f"{spent:.2f}", f"{spent / total:.0%}", _speed(size, spent)] for name, spent in steps]
    head = ["step", "seconds", "of the time", "MB/s of raw text"]
    return [*table(head, [*rows, ["all", f"{total:.2f}", "", _speed(size, total)]])]


def _speed(size: float, seconds: float) -> str:
    return f"{size / seconds:,.0f}" if seconds > 1e-3 else "-"


def _agreement(found: Results) -> list[str]:
    head = ["family", "documents", "dropped by datatrove", "equal decisions", "equal reasons", "differing"]
    rows = [
        [family, f"{row['documents']:,}", f"{row['dropped_by_datatrove']:,}", f"{row['equal_decisions']:.2%}",
         f"{row['equal_reasons']:.2%}", str(len(row["differing"]))]
        for family, row in found.items()
    ]  # fmt: skip
    return table(head, rows)


def _target_row(row: Results) -> Row:
    measured = f"{row['measured']:.2%}" if row["target"].startswith("agreement") else f"{row['measured']:.1f}"
    return [row["target"], measured, "yes" if row["met"] else "**no**"]


def _machine(results: Results) -> list[str]:
    lines = [f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()]
    return ["## Machine and versions", "", *lines, *(f"- {name} {of}" for name, of in results["versions"].items())]
