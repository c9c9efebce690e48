"""The results file as markdown."""

from typing import Any

Row = list[str]

_HEAD = [
    "contender",
    "best setting",
    "order",
    "Mtok/s (lowest to highest round)",
    "of bare gather",
    "first batch ms",
    "resume ms",
    "import s",
    "memory MB (without file pages)",
    "CPU s / 10⁹ tokens",
]


def markdown(results: dict[str, Any]) -> str:
    """The whole report."""
    contenders = results["contenders"]
    return "\n".join(
        [
            "# Loader speed",
            "",
            _introduction(results),
            "",
            *table(_HEAD, [_main_row(c) for c in contenders]),
            "",
            *_targets(results["targets"]),
            "",
            *_settings(contenders),
            "",
            *_errors(contenders),
            *_machine(results),
            "",
        ]
    )


def table(head: Row, rows: list[Row]) -> list[str]:
    """A markdown table."""
    return ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]


def _introduction(results: dict[str, Any]) -> str:
    corpus, timing = results["corpus"], results["timing"]
    return (
        f"{corpus['tokens'] / 1e6:.0f} M tokens (uint16) in the page cache, {corpus['seq_len']:,} a sample, "
        f"{corpus['batch_size']} a batch, int64 out. Medians of {timing['rounds']} interleaved rounds of "
        f"{timing['seconds']:g} s; {results['machine']['cores']} cores. README.md says how each is measured."
    )


def _main_row(contender: dict[str, Any]) -> Row:
    run = _best(contender)
    if run is None:
        return [contender["name"], "failed", contender["order"], *["-"] * 7]
    speed = [_speed(run), _percent(run["ratio_to_bare_gather"])]
    cpu = f"{run['cpu_seconds_per_billion_tokens']:.2f}"
    start = _start_cells(contender["start"])
    return [contender["name"], contender["best"], contender["order"], *speed, *start, cpu]


def _start_cells(start: dict[str, Any] | None) -> Row:
    if start is None:
        return ["failed", "-", "-", "-"]
    memory = start["memory_bytes"]
    return [
        f"{start['first_batch_seconds'] * 1e3:.1f}",
        _resume(start),
        f"{start['import_seconds']:.2f}",
        f"{memory['pss'] / 1e6:.0f} ({memory['anonymous'] / 1e6:.0f})",
    ]


def _resume(start: dict[str, Any]) -> str:
    if start["resume_seconds"] is None:
        return "none"
    note = "" if start["resume_exact"] else " (another batch)"
    return f"{start['resume_seconds'] * 1e3:.1f}{note}"


def _best(contender: dict[str, Any]) -> dict[str, Any] | None:
    return next((run for run in contender["settings"] if run["setting"] == contender["best"]), None)


def _speed(run: dict[str, Any]) -> str:
    rates = run["tokens_per_second"]
    low, high = min(rates["rounds"]), max(rates["rounds"])
    return f"{rates['median'] / 1e6:,.1f} ({low / 1e6:,.1f} to {high / 1e6:,.1f})"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1%}"


def _targets(targets: list[dict[str, Any]]) -> list[str]:
    head = ["target", "setting", "measured", "met"]
    return ["## Targets", "", *table(head, [_target_row(target) for target in targets])]


def _target_row(target: dict[str, Any]) -> Row:
    head = [target["target"], target["setting"]]
    if target["met"] is None:
        return [*head, "not measured", "-"]
    return [*head, f"{target['measured']:.2f}", "yes" if target["met"] else "**no**"]


def _settings(contenders: list[dict[str, Any]]) -> list[str]:
    rows = [
        [contender["name"], run["setting"], _speed(run)]
        for contender in contenders
        for run in contender["settings"]
        if len(contender["settings"]) > 1 and not run["error"]
    ]
    return ["## All settings", "", *table(["contender", "setting", "Mtok/s"], rows)]


def _errors(contenders: list[dict[str, Any]]) -> list[str]:
    lines = [f"- {contender['name']}, {error}" for contender in contenders for error in contender["errors"]]
    return ["## Failures", "", *lines, ""] if lines else []


def _machine(results: dict[str, Any]) -> list[str]:
    versions = {c["distribution"]: c["start"]["version"] for c in results["contenders"] if c["start"]}
    lines = [f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()]
    lines += [f"- {name} {version}" for name, version in versions.items()]
    return ["## Machine and versions", "", *lines]
