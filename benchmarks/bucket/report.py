"""The results of remote.py as markdown."""

from typing import Any

from bucket.rounds import Case, cpu, fastest, rate, ratio, split
from bucket.targets import EPOCHS, fetched_share, growth, growth_later, stalled
from harness.render import table

Measured = dict[str, list[Case]]


def markdown(results: dict[str, Any], measured: Measured) -> str:
    """The whole report."""
    return "\n".join(
        [
            "# Loading from object storage",
            "",
            "From a SeaweedFS server on the same machine, which has to do its work on the same cores but where it says "
            "otherwise: what a reader computes is then taken from the server, too. Every figure is of a fresh process; "
            "cases take turns, and ratios are medians of those within a round.",
            "",
            "## Targets",
            "",
            *table(["target", "measured", "met"], [_target(target) for target in results["targets"]]),
            "",
            f"## 800 MB in blocks of 1 MiB, {_rounds(measured['throughput'])} rounds",
            "",
            "From the loader's construction to its last batch; the store is open, compiled code is loaded, nothing is "
            "cached. CPU seconds are those of the reading process, not of the server.",
            "",
            *_throughput(measured["throughput"]),
            "",
            *_apart(measured),
            f"## Peers, the same 134 MB, {_rounds(measured['peers'])} rounds",
            "",
            "From the construction of data set and loader to the last batch of the epoch, 64 x 2,048 int64 each; "
            "imports and compiled code are there already. Warm: a fresh process that finds the whole epoch in its "
            "cache on disk.",
            "",
            *_peers(measured["peers"]),
            "",
            "## Through a network",
            "",
            *_shaped(measured),
            "",
            *_failures(measured),
            "## Machine and versions",
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
            *_versions(measured["peers"]),
            "",
        ]
    )


def _apart(measured: Measured) -> list[str]:
    """Throughput and peers once more, the server on one half of the cores and the readers on the other."""
    if "apart" not in measured:
        return []
    return [
        f"## The server on cores of its own, {_rounds(measured['apart'])} rounds",
        "",
        "The same, with the server held on one half of the cores and every reader on the other: a bucket is on "
        "machines of its own, and a loader that computes more takes nothing from it.",
        "",
        *_throughput(measured["apart"]),
        "",
        *([*_peers(measured["peers_apart"]), ""] if "peers_apart" in measured else []),
    ]


def _rounds(cases: list[Case]) -> int:
    return max(len(case.figures) for case in cases)


def _target(target: dict[str, Any]) -> list[str]:
    if target["met"] is None:
        return [target["target"], "not measured", "-"]
    return [target["target"], f"{target['measured']:.3g}", "yes" if target["met"] else "**no**"]


def _throughput(cases: list[Case]) -> list[str]:
    best = fastest([case for case in cases if case.name.startswith("obstore")])
    rows = [
        [case.name, *_speed(case), _number(ratio(case, best), ".0%"), _number(case.median(cpu), ".2f")]
        for case in cases
    ]
    return [
        *table(["reader", "MB/s (lowest to highest round)", "of obstore alone", "CPU s / 10⁹ bytes"], rows),
        *(_parts(cases) if any(case.name == "Loader, from disk" for case in cases) else []),
    ]


def _parts(cases: list[Case]) -> list[str]:
    """Where a reader's processor time goes, by what is left out."""
    costs = {case.name: case.median(cpu) for case in cases}
    ours, unchecked, disk = (costs[name] for name in ("Loader", "Loader, sums off", "Loader, from disk"))
    raw = min((cost for name, cost in costs.items() if name.startswith("obstore") and cost), default=None)
    if not (ours and unchecked and disk and raw):
        return []
    return [
        "",
        f"Of the loader's {ours:.2f} s for 10⁹ bytes, obstore and the kernel's sockets take {raw:.2f}, checking sums "
        f"{ours - unchecked:.2f} ({(ours - unchecked) / ours:.0%}), making batches of bytes in memory {disk:.2f} (the "
        "loader from disk: order and groups, which are Python's and NumPy's, compiled loops, and sums at the "
        f"first touch), and the rest, {unchecked - raw - disk:.2f}, is asking, waiting and handing over.",
    ]


def _speed(case: Case) -> list[str]:
    if case.error:
        return ["failed"]
    rates = [each / 1e6 for each in case.values(rate)]
    return [f"{case.median(rate) / 1e6:,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"]  # type: ignore[operator]


def _peers(cases: list[Case]) -> list[str]:
    rows = []
    for cold, warm in zip(split(cases, "cold"), split(cases, "warm"), strict=True):
        firsts = [_number(case.median(lambda each: each["first_seconds"]), ".2f") for case in (cold, warm)]
        rows.append([cold.name, *_speed(cold), firsts[0], *_speed(warm), firsts[1], _number(cold.median(cpu), ".1f")])
    head = ["contender", "MB/s cold", "first batch s", "MB/s warm", "first batch s", "CPU s / 10⁹ bytes, cold"]
    return table(head, rows)


def _shaped(measured: Measured) -> list[str]:
    first, stall, fetched = (measured[name][0] for name in ("first_batch", "stalls", "fetched"))
    later = [
        f"- {EPOCHS} epochs of the same: {_number(case.median(lambda each: each['anonymous'][-1] / 1e6), '.0f')} MB "
        f"without pages of files at the end, {_number(case.median(growth_later), '+.1%')} from the fifth to the last. "
        "Files of the cache that are being read count as resident, whose pages the kernel may take back."
        for case in measured["fetched"][1:]
    ]
    opened = _number(first.median(lambda each: each["open_seconds"]), ".2f")
    begun = _number(first.median(lambda each: each["first_seconds"]), ".2f")
    before = _number(stall.median(lambda each: each["first_seconds"]), ".2f")
    last = _number(fetched.median(lambda each: each["memory"][-1] / 1e6), ".0f")
    return [
        f"- 10,000 shards, 20 MB/s, 50 ms before every answer: open and planned after {opened} s, first batch after "
        f"{begun} s.",
        f"- Steps of 50 ms, 60 MB/s, 50 ms before every answer: the loop waited for "
        f"{_number(stall.median(stalled), '.2%')} of the time, after a first batch that took {before} s.",
        f"- An epoch with a cache on disk of a tenth of it: {_number(fetched.median(fetched_share), '.3f')} bytes "
        f"fetched for each byte served, {_number(fetched.median(lambda each: each['requests']), ',.0f')} requests; "
        f"{last} MB resident at its end, {_number(fetched.median(growth), '+.1%')} since its middle.",
        *later,
    ]


def _failures(measured: Measured) -> list[str]:
    lines = [f"- {case.name}: {case.error}" for cases in measured.values() for case in cases if case.error]
    return ["## Failures", "", *lines, ""] if lines else []


def _versions(peers: list[Case]) -> list[str]:
    found = {case.name.partition(",")[0]: case.figures[0]["cold"]["version"] for case in peers if not case.error}
    return [f"- {name} {version}" for name, version in found.items()]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
