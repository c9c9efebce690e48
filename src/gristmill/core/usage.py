"""What the kernel says of processes: the memory that this one and those below it hold, and which of them run."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Bytes in memory, of this process and of all below it; 0 where the system does not tell."""
    return sum(map(_resident, _family(os.getpid())))


def began(process: int) -> int | None:
    """When a process of this machine began, in ticks since the machine did: numbers of processes are used again.

    None if there is none, or only what is left of one that has ended and that nobody has asked about.
    """
    try:
        state, *fields = (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


def _family(process: int) -> list[int]:
    found, at = [process], 0
    while at < len(found):
        found += _children(found[at])
        at += 1
    return found


def _children(process: int) -> list[int]:
    try:
        tasks = list((_PROCESSES / str(process) / "task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (OSError, ValueError):  # it has just ended, or this is not Linux
        return []


def _resident(process: int) -> int:
    try:
        return int((_PROCESSES / str(process) / "statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
