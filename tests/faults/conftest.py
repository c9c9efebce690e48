"""The command line as a process of its own, to be killed, starved or raced."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "gristmill.cli", *map(str, arguments)]


@pytest.fixture
def start() -> Start:
    """`start("prepare", ..., preexec_fn=)`: the process, its output in pipes."""
    pipe = subprocess.PIPE
    return lambda *arguments, **settings: subprocess.Popen(
        command(*arguments), stdout=pipe, stderr=pipe, text=True, **{"preexec_fn": _hear_interrupts, **settings}
    )


def _hear_interrupts() -> None:
    """A job that a shell started in the background ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def slow_input(tmp_path: Path) -> Path:
    """Text that makes a shard every 20 documents with --tokens-per-shard 1000: hundreds of files to sync."""
    path = tmp_path / "slow.jsonl"
    path.write_text("".join(f'{{"text": "{f"document {i} " * 4}"}}\n' for i in range(1500)))
    return path
