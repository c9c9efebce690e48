"""Ctrl-C and SIGTERM at any moment: one sentence, the right code, no process and no semaphore left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files: four units of work."""
    for name in "abcd":
        rows = (f'{{"text": "{name} document {i} of some words"}}\n' for i in range(20_000))
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    return tmp_path


def members(group: int) -> list[str]:
    """The processes of a group, but for those that only wait to be asked how they ended."""
    found = []
    for task in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (task / "stat").read_text().rpartition(")")[2].split()[:3]
            found += [task.name] if int(its_group) == group and state != "Z" else []
        except OSError:
            continue  # it has ended meanwhile
    return found


def check_told(process: subprocess.Popen[str], number: int) -> None:
    _, said = process.communicate()
    sentences = [line for line in said.splitlines() if line.startswith("gristmill: ")]  # a slow run tells its progress
    assert "Traceback" not in said and "Exception" not in said and "leaked" not in said, said
    word = "interrupted" if number == signal.SIGINT else "terminated"
    hints = ("", ". Run the same command again, and it goes on from what is done.")  # none before it knows its command
    assert process.returncode == 128 + number and sentences in [[f"gristmill: {word}{hint}"] for hint in hints], said
    until = time.monotonic() + 10
    while members(process.pid):
        assert time.monotonic() < until, "a process is left behind"
        time.sleep(0.02)


def cases(count: int) -> list[tuple[int, int, float]]:
    rng = random.Random(9)
    return [(rng.choice((signal.SIGINT, signal.SIGTERM)), rng.choice((1, 2)), rng.uniform(0, 1)) for _ in range(count)]


def check_case(start: Start, out: Path, number: int, workers: int, later: float) -> bool:
    """Whether the signal came before the end of the run. Python itself must be up: until then nobody hears it."""
    inputs = [out.parent / f"{name}.jsonl" for name in "abcd"]
    process = start("prepare", *inputs, "--out", out, "--tokenizer", "byte", "--workers", workers,
                    start_new_session=True)  # fmt: skip
    while process.poll() is None and not any(map(hears, members(process.pid))):
        time.sleep(0.002)
    time.sleep(later)
    if process.poll() is not None:
        assert process.wait() == 0
        process.communicate()
        return False
    os.killpg(process.pid, number)
    check_told(process, number)
    return True


def hears(pid: str) -> bool:
    """Whether a process catches SIGTERM."""
    try:
        caught = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")
        )
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("case", range(6))
def test_a_signal_in_the_first_second_is_one_sentence(start: Start, folder: Path, case: int) -> None:
    assert check_case(start, folder / "out", *cases(6)[case])


def test_signals_at_any_moment_soak(start: Start, folder: Path, soak: bool, record: Path | None) -> None:
    if not soak:
        return
    tried = enumerate(cases(200))
    told = [check_case(start, folder / f"out-{i}", number, workers, 3 * later) for i, (number, workers, later) in tried]
    assert sum(told) > 100
    if record:
        (record / "signals.json").write_text(json.dumps({"signals": len(told), "while at work": sum(told)}) + "\n")
