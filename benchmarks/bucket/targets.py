"""What reading from a bucket is built to reach, and whether this run reached it."""

import statistics
from typing import Any

from bucket.rounds import Case, fastest, ratio, split

Measured = dict[str, list[Case]]
RIVALS = ("mosaicml-streaming", "litdata")
APART = ", the server on cores of its own"
EPOCHS = 10  # of which a process needs four to come to rest; one that grows without bound is seen to


def judge(measured: Measured) -> list[dict[str, Any]]:
    """Each target with what was measured; None where a part of it failed."""
    wide = of_same_objects(measured["throughput"], "Loader, ids of four bytes", "ids of four bytes by obstore")
    targets = [
        _verdict("the Loader's bytes/s with ids of four bytes, of obstore's alone over the same objects", wide, 0.8)
    ]
    for group, where in (("throughput", ""), ("apart", APART)):
        cases = measured.get(group, [])
        ranges = of_same_objects(cases, "Loader", "the Loader's ranges")
        targets += [
            _verdict(f"the Loader's bytes/s, of obstore's alone{where}", of_obstore(cases, "Loader"), 0.8),
            _verdict(f"the same, where obstore reads the very ranges that the Loader asks for{where}", ranges, 0.8),
        ]
    for group, where in (("peers", ""), ("peers_apart", APART)):
        for state in ("cold", "warm"):
            for rival in RIVALS:
                times = of_peer(measured.get(group, []), rival, state)
                targets.append(_verdict(f"times {rival}, {state}{where}", times, 3.0))
    first, stall = measured["first_batch"][0], measured["stalls"][0]
    fetched = measured["fetched"][0]
    return [
        *targets,
        _verdict("seconds to the first batch, 10,000 shards, 20 MB/s, 50 ms",
                 first.median(lambda each: each["first_seconds"]), 2.0, most=True),
        _verdict("share of the time stalled, steps of 50 ms", stall.median(stalled), 0.01, most=True),
        _verdict("bytes fetched for a byte served, cache of a tenth", fetched.median(fetched_share), 1.05, most=True),
        _verdict("growth of memory over the second half of an epoch", fetched.median(growth), 0.05, most=True),
        *(_verdict("growth of anonymous memory from the fifth of ten epochs to the last", case.median(growth_later),
                   0.05, most=True) for case in measured["fetched"][1:]),
    ]  # fmt: skip


def of_obstore(cases: list[Case], name: str) -> float | None:
    """A loader's speed by that of the fastest setting of obstore alone."""
    return ratio(_called(cases, name), fastest([case for case in cases if case.name.startswith("obstore")]))


def of_same_objects(cases: list[Case], name: str, reader: str) -> float | None:
    """A loader's speed by that of obstore alone over the same objects, in the case whose name begins so."""
    return ratio(_called(cases, name), next((case for case in cases if case.name.startswith(reader)), None))


def _called(cases: list[Case], name: str) -> Case | None:
    return next((case for case in cases if case.name == name), None)


def of_peer(cases: list[Case], rival: str, state: str) -> float | None:
    """Our speed by that of a peer in its fastest setting."""
    halves = split(cases, state)
    ours, theirs = ([case for case in halves if case.name.startswith(name)] for name in ("gristmill", rival))
    return ratio(fastest(ours), fastest(theirs))


def stalled(figures: dict[str, Any]) -> float:
    """The share of the time for which the loop waited, after its first batch."""
    return float(figures["waited_seconds"] / figures["seconds"])


def fetched_share(figures: dict[str, Any]) -> float:
    """Bytes of all answers, opening included, by those of the batches."""
    return float(figures["body_bytes"] / figures["bytes"])


def growth(figures: dict[str, Any]) -> float:
    """How much larger the process is in the last tenth of a run than in the middle of it."""
    memory = figures["memory"]
    tenth = max(len(memory) // 10, 1)
    middle = statistics.median(memory[len(memory) // 2 : len(memory) // 2 + tenth])
    return statistics.median(memory[-tenth:]) / middle - 1


def growth_later(figures: dict[str, Any]) -> float:
    """How much more anonymous memory the process has in the last of the epochs than in the one in their middle."""
    anonymous = figures["anonymous"]
    epoch, middle = max(len(anonymous) // EPOCHS, 1), len(anonymous) // 2
    return statistics.median(anonymous[-epoch:]) / statistics.median(anonymous[middle - epoch : middle]) - 1


def _verdict(target: str, measured: float | None, wanted: float, most: bool = False) -> dict[str, Any]:
    met = None if measured is None else measured <= wanted if most else measured >= wanted
    return {"target": f"{target}: {'at most' if most else 'at least'} {wanted:g}", "measured": measured, "met": met}
