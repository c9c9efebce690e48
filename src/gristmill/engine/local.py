"""One machine: a pool of processes for narrow work, DuckDB for wide work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from gristmill.core.errors import EngineError
from gristmill.engine.base import Engine, Means, P, R
from gristmill.engine.duck import Duck
from gristmill.engine.inline import InlineEngine
from gristmill.engine.processes import Processes


def local_engine(means: Means) -> Engine:
    """This machine: processes, or, where one worker is enough, none."""
    if means.workers == 1:
        return InlineEngine(means.memory, means.scratch)
    return LocalEngine(means.workers, means.memory, means.scratch)


class LocalEngine(Duck):
    """`workers` processes from the first map to `close`, which keep what they load; as many threads of DuckDB."""

    def __init__(self, workers: int, memory: int, scratch: Path) -> None:
        super().__init__(memory, scratch, threads=workers)
        self._workers = workers
        self._processes = Processes(workers)

    def start(self, function: Callable[[], None]) -> None:
        """Start the processes, each of which calls `function` while the caller goes on, or inherits what it loads."""
        self._processes.start(function)

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part in the processes, at most two parts a worker ahead of what was taken."""
        waiting: deque[Future[R]] = deque()
        rest = iter(parts)
        try:
            for part in rest:
                waiting.append(self._processes.submit(function, part))
                if len(waiting) >= 2 * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise EngineError(
                "A worker process died, perhaps for want of memory: run the same command again, it goes on from "
                "the last finished part; fewer workers need less memory.",
                arguments="workers",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes, at once: what they were doing is done again, and whole, by the next run."""
        super().close()
        self._processes.close()
