"""What tests have executors do again: workers that end, executors that are killed, attempts that are late.

Classes lie in a module, since tasks name them: a driver that uses them gives its executors this folder as PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill.engine import spark_tables
from gristmill.engine.spark import SparkEngine
from gristmill.frames.rows import RowFiles

LOST = "GRISTMILL_TEST_LOST"
# Settings under which a second attempt at a late task is begun soon.
SPECULATION = {"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.1",
               "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms"}  # fmt: skip


class Again(spark_tables._Writing):
    """The first attempt to write the rows of a query's first part ends when they are published."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from _ended_once(super().__call__(batches), self.out.parent.name)


class RowsAgain(RowFiles):
    """The first attempt to write rows of a DataFrame ends when the first of its files is published."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        yield from _ended_once(super().__call__(batches), "rows")


def _ended_once(answers: Iterable[Any], name: str) -> Iterator[Any]:
    once = Path(os.environ[LOST], name)
    for answer in answers:
        if not once.exists():
            once.touch()
            os._exit(1)
        yield answer


class Troubled(SparkEngine):
    """The first attempt at a job of each of these kinds is in trouble, and a file of the kind's name says so.

    "ended": its worker ends when all is published; "killed": its executor is killed when a batch is tokenised;
    "late": it waits when all is published, so that another attempt is begun and ends first, and says so beside it.
    """

    kinds: Mapping[str, str] = {"CurateJob": "ended", "TokensJob": "killed", "ShardJob": "ended"}
    places = Path()

    def map(self, function: Callable[..., Any], parts: Any) -> Iterator[Any]:
        kinds, places = self.kinds, self.places

        # By value, so that executors without this module can do it, too.
        def kill_executor() -> None:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            os.kill(int(daemon[1]), signal.SIGKILL)  # Java, whose daemon this worker is a child of
            os._exit(1)

        def tokenised_and_killed() -> None:
            from gristmill.stages import tokens

            encode = tokens._encode

            def cut_short(*given: Any) -> Any:
                encode(*given)
                kill_executor()

            tokens._encode = cut_short  # type: ignore[assignment]

        def begun_before(once: Path, job: Any) -> bool | None:
            """Whether this job's first attempt was in trouble; None where another job's was."""
            try:
                with once.open("x") as file:
                    file.write(str(job.marker))
                return False
            except FileExistsError:
                return True if once.read_text() == str(job.marker) else None

        def attempted(job: Any) -> Any:
            name = type(job).__name__
            once, again = places / name, places / f"{name}-again"
            before = begun_before(once, job) if name in kinds else None
            if before is False and kinds[name] == "killed":
                tokenised_and_killed()
            answer = function(job)
            if before:
                again.touch()
            if before is not False:
                return answer
            until = time.monotonic() + (300 if kinds[name] == "late" else 0)
            while time.monotonic() < until:  # Spark ends it when the other attempt has
                time.sleep(0.1)
            os._exit(1)

        return super().map(attempted, parts)
