"""What tests have executors do again: workers that end, executors that are killed, attempts that are late.

Classes lie in a module, since tasks name them: the session of tests gives its executors this file.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill.engine import spark_tables
from gristmill.engine.spark import SparkEngine
from gristmill.frames.rows import RowFiles

# Names, on the driver, the folder in which files say what was ended.
LOST = "GRISTMILL_TEST_LOST"


class Turning(SparkEngine):
    """Answers the first query by 1 part of Spark, the next by 7, then by `most`, and so on."""

    most = 200

    def query(self, *given: Any) -> list[Any]:
        self._turns = getattr(self, "_turns", itertools.cycle((1, 7, self.most)))
        kept = self._session.conf.get("spark.sql.shuffle.partitions")
        self._session.conf.set("spark.sql.shuffle.partitions", next(self._turns))
        try:
            return super().query(*given)
        finally:
            self._session.conf.set("spark.sql.shuffle.partitions", kept)


class Again(spark_tables._Writing):
    """The first attempt to write the rows of a query's first part ends when they are published."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        object.__setattr__(self, "lost", os.environ[LOST])

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from _ended_once(super().__call__(batches), Path(self.lost, self.out.parent.name))


class RowsAgain(RowFiles):
    """The first attempt to write rows of a DataFrame ends when the first of its files is published."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        object.__setattr__(self, "lost", os.environ[LOST])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        yield from _ended_once(super().__call__(batches), Path(self.lost, "rows"))


def _ended_once(answers: Iterable[Any], once: Path) -> Iterator[Any]:
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
