"""The driver's end of a worker process: start it, ask it, pause it, end it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from contenders.registry import Entry, Setting
from harness.corpus import Corpus

BENCHMARKS = Path(__file__).resolve().parent.parent
PEERS_PYTHON = BENCHMARKS.parent / ".venv-bench" / "bin" / "python"
ANSWER_SECONDS = 600
ENDING_SECONDS = 20

# glibc moves these two thresholds at run time, up to these very values, depending on what a process happened
# to free first. Left to chance, the same loader returns every batch's memory to the kernel in one process and
# not in the next, and its speed doubles or halves: so they stand fixed for everyone.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}


def end_with_workers() -> None:
    """Turn SIGTERM into an ordinary exit, which ends the workers: a paused one would stay for ever."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


class ContenderError(Exception):
    """A contender could not do what was asked; the text is what it said."""


class WorkerProcess:
    """One contender in one setting, in a process (group) of its own."""

    def __init__(self, entry: Entry, setting: Setting, corpus: Corpus) -> None:
        self.entry = entry
        log_directory = corpus.root / "logs"
        log_directory.mkdir(parents=True, exist_ok=True)
        self.log = log_directory / f"{entry.module}-{setting.workers}-{setting.threads}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*_command(entry), str(corpus.root), str(setting.workers), str(setting.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(entry),
                start_new_session=True,
            )

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin and stdout  # both are pipes
        with contextlib.suppress(BrokenPipeError):  # a dead worker shows as an empty reply
            print(json.dumps([command, arguments]), file=stdin, flush=True)
        if not select.select([stdout], [], [], ANSWER_SECONDS)[0]:
            raise ContenderError(f"no answer to {command!r} in {ANSWER_SECONDS} s")
        return self._checked(stdout.readline())

    def pause(self) -> None:
        """Stop all its processes, so that nothing is read ahead while another one is measured."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let its processes run again."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the worker by closing its stdin, and its whole group by force if that does not help."""
        self.wake()
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self.process.communicate(timeout=ENDING_SECONDS)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        """Give the worker itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker."""
        self.close()

    def _checked(self, line: str) -> dict[str, Any]:
        if not line:
            raise ContenderError(f"the worker died with {self.process.wait()}: {self._last_words()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ContenderError(reply["error"])
        return reply

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing was said"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _command(entry: Entry) -> list[str]:
    if entry.peer and not PEERS_PYTHON.exists():
        raise ContenderError("the peers are not installed: run benchmarks/setup_peers.sh")
    python = str(PEERS_PYTHON) if entry.peer else sys.executable
    return [python, "-W", "ignore", "-m", "harness.worker", entry.module]


def _environment(entry: Entry) -> dict[str, str]:
    own = [] if entry.peer else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(BENCHMARKS)] + [str(BENCHMARKS / "stubs")] * entry.stubs + own
    return os.environ | _MALLOC | {"PYTHONPATH": os.pathsep.join(paths)}
