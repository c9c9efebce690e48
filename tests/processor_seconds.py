"""Processor seconds by test, those of its processes included: a plugin of pytest, and a table of what it wrote.

    PYTHONPATH=tests python -m pytest -p processor_seconds -n 2 --dist worksteal tests/stages
    python tests/processor_seconds.py folder|file|test

The first writes build/seconds/*.tsv, the second adds them up, dearest first. What a fixture of a session takes is in
the first test that asks for it. Whoever else uses the machine makes all of it dearer: compare tests of one run.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "build" / "seconds"
_TICKS = os.sysconf("SC_CLK_TCK")
_before = 0.0


def seconds() -> float:
    """What this process, those that it has waited for, and all that are alive below it have taken."""
    parents: dict[int, list[int]] = {}
    taken: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(name))
        taken[int(name)] = sum(map(int, fields[11:15]))
    below = list(parents.get(os.getpid(), ()))
    for process in below:  # which grows
        below += parents.get(process, ())
    return sum(taken[process] for process in below) / _TICKS + sum(os.times()[:4])


def note(what: str) -> None:
    """A line of what was taken since the last one."""
    global _before
    now = seconds()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{os.getpid()}.tsv").open("a") as file:
        print(f"{now - _before:.3f}", what, sep="\t", file=file)
    _before = now


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.items:  # xdist's own process has none
        note("collection")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    result = yield
    note(item.nodeid)
    return result


def table(by: str) -> None:
    found: Counter[str] = Counter()
    for line in (line for path in FOLDER.glob("*.tsv") for line in path.read_text().splitlines()):
        taken, _, test = line.partition("\t")
        file = test.partition("::")[0]
        found[{"folder": os.path.dirname(file) or file, "file": file, "test": test}[by]] += float(taken)
    for name, taken in [("all", found.total()), *found.most_common(60)]:
        print(f"{taken:8.1f}  {name}")


if __name__ == "__main__":
    table(sys.argv[1])
