"""Processes of this machine: their results come in order, their end is said, and they do not outlive their parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.core.errors import EngineError
from gristmill.engine.base import Means
from gristmill.engine.inline import InlineEngine
from gristmill.engine.local import LocalEngine, local_engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine(2, 1 << 28, tmp_path / "scratch")
    yield engine
    engine.close()


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    assert isinstance(local_engine(Means(1, 1 << 28, tmp_path)), InlineEngine)
    assert isinstance(local_engine(Means(2, 1 << 28, tmp_path)), LocalEngine)


def test_a_process_that_dies_is_one_sentence_and_no_other_work_goes_on(engine: LocalEngine) -> None:
    with pytest.raises(EngineError, match="A worker process died"):
        list(engine.map(os._exit, [1, 1]))


def test_an_error_of_a_part_is_raised_where_its_result_is_taken(engine: LocalEngine) -> None:
    results = engine.map(int, ["1", "two", "3"])
    assert next(results) == 1
    with pytest.raises(ValueError, match="two"):
        next(results)


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """A parent that is killed leaves no worker behind."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_local import slow; from pathlib import Path\n"
        "from gristmill.engine.local import LocalEngine\n"
        "if __name__ == '__main__':\n"
        "    engine = LocalEngine(2, 1 << 28, Path(sys.argv[1]))\n"
        "    for _ in engine.map(slow, [0.0, 0.0, 60.0, 60.0]):\n"
        "        print(*engine._processes._pool._processes, flush=True)\n"
    )
    (tmp_path / "parent.py").write_text(script)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", tmp_path, Path(__file__).parent], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_no_worker_hears_of_ctrl_c_not_even_the_first(tmp_path: Path) -> None:
    """In a fresh process: the tracker of multiprocessing, which starts with the first worker, unblocks signals."""
    code = f"""
import functools, pathlib, signal
from gristmill.engine.local import LocalEngine

engine = LocalEngine(2, 1 << 28, pathlib.Path({str(tmp_path)!r}))
blocked = list(engine.map(functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK), [()] * 8))
engine.close()
print(all(signal.SIGINT in each for each in blocked))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"
