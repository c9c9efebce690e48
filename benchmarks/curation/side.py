"""The driver's end: a worker process for each side, asked one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

BENCHMARKS = Path(__file__).resolve().parent.parent
DATATROVE_PYTHON = BENCHMARKS.parent / ".venv-datatrove" / "bin" / "python"
# One thread for each library that would take more by itself.
SINGLE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
# numpy returns large arrays to the kernel after use unless told otherwise, at a cost that chance decides.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
PYTHONS = {"gristmill": Path(sys.executable), "datatrove": DATATROVE_PYTHON}


class SideError(Exception):
    """A side could not do what was asked; the text says where its own words are."""


def environment() -> dict[str, str]:
    """What both sides run with."""
    return os.environ | SINGLE | MALLOC | {"PYTHONPATH": str(BENCHMARKS), "TOKENIZERS_PARALLELISM": "false"}


class Side:
    """`gristmill` or `datatrove` in a process of its own, on one core."""

    def __init__(self, name: str, core: int, log: Path) -> None:
        self.name, self.log = name, log
        if not PYTHONS[name].exists():
            raise SideError(f"{name} is not installed: run benchmarks/setup_datatrove.sh")
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [PYTHONS[name], "-W", "ignore", "-m", f"curation.{name}_side", str(core)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(),
            )

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send a command and wait for its reply."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout  # both are pipes
        print(json.dumps([command, arguments]), file=stdin, flush=True)
        if not (line := stdout.readline()):
            raise SideError(f"{self.name} died at {command!r}: see {self.log}")
        return json.loads(line)

    def __enter__(self) -> Self:
        """Give the side itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process by closing its stdin."""
        self._process.communicate()
