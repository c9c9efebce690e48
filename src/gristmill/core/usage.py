"""How much memory this process and those that it has started hold now."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Bytes in memory, of this process and of all below it; 0 where the system does not tell."""
    return sum(map(_resident, _family(os.getpid())))


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
