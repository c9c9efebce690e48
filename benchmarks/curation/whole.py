"""Whole runs in fresh processes, with the memory of the process tree sampled while they go."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from curation.side import BENCHMARKS, PYTHONS, SideError, environment
from harness.processes import tree

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_SECONDS = 0.1


def whole_run(side: str, inputs: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The figures of one run, with the seconds of the whole process, by the clock and of CPU, and its peak memory."""
    folder = Path(tempfile.mkdtemp(dir=BENCHMARKS / "data" / "curate", prefix="run-"))
    command = [
        PYTHONS[side],
        "-W",
        "ignore",
        "-m",
        f"curation.{side}_run",
        str(inputs),
        str(folder / "out"),
        *arguments,
    ]
    try:
        with (folder / "log").open("w") as log:
            start, cpu = time.perf_counter(), _cpu_seconds()
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment() | dict(variables or {})
            )
            with Peak(process.pid) as peak:
                output, _ = process.communicate()
            seconds = {"process_seconds": time.perf_counter() - start, "cpu_seconds": _cpu_seconds() - cpu}
        if process.returncode:
            raise SideError(f"{side} failed: {(folder / 'log').read_text()[-2000:]}")
        return {**json.loads(output.splitlines()[-1]), **seconds, "peak_bytes": peak.bytes}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cpu_seconds() -> float:
    """CPU time of all processes that this one has waited for, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Peak:
    """Watches the resident memory of a process tree; pages that processes share count for each of them."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid, self._ended, self._thread = pid, threading.Event(), threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Watch no longer."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self.bytes = max(self.bytes, _resident(self._pid))


def _resident(pid: int) -> int:
    try:
        return sum(_pages(process) for process in tree(pid)) * _PAGE
    except OSError:  # a process ended while the tree was walked
        return 0


def _pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
