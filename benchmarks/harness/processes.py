"""Memory and CPU time of a process with all its descendants, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PSS_FIELDS = ("Pss:", "Pss_Anon:", "Pss_Shmem:")


def tree(pid: int) -> Iterator[int]:
    """The process and everything that descends from it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, with that of descendants that ended and were waited for."""
    return sum(_ticks(p) for p in tree(pid)) / _TICK


def _ticks(pid: int) -> int:
    # The name in parentheses may hold spaces, so fields are counted from behind it; 11 to 14 are
    # utime, stime, cutime, cstime.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(ticks) for ticks in fields[11:15])


def disk_bytes(pid: int) -> int:
    """What the tree made the kernel fetch from the disk, read-ahead included."""
    return sum(_fetched(p) for p in tree(pid))


def _fetched(pid: int) -> int:
    counters = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counters["read_bytes"])


def memory_bytes(pid: int) -> dict[str, int]:
    """Proportional set size of the tree: all of it, and the part that is not pages of files."""
    sums = dict.fromkeys(_PSS_FIELDS, 0)
    for p in tree(pid):
        for field, size in _pss(p):
            sums[field] += size
    return {"pss": sums["Pss:"], "anonymous": sums["Pss_Anon:"] + sums["Pss_Shmem:"]}


def _pss(pid: int) -> Iterator[tuple[str, int]]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    for line in lines:
        field, *rest = line.split()
        if field in _PSS_FIELDS:
            yield field, int(rest[0]) * 1024
