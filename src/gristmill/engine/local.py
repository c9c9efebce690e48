"""One machine: a pool of processes for narrow work, DuckDB for wide work."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from gristmill.core.errors import EngineError
from gristmill.engine.base import P, R
from gristmill.engine.duck import Duck


class LocalEngine:
    """`workers` processes that live from the first map to `close`; each keeps what it has loaded."""

    def __init__(self, workers: int, memory: int, scratch: Path) -> None:
        self._workers = workers
        self._duck = Duck(memory, scratch, threads=workers)
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part in the processes, at most two parts a worker ahead of what was taken."""
        if self._pool is None:
            # spawn: a fork would inherit the locks of our caller's threads, and of Arrow's.
            self._pool = ProcessPoolExecutor(self._workers, multiprocessing.get_context("spawn"))
        waiting: deque[Future[R]] = deque()
        rest = iter(parts)
        try:
            for part in rest:
                waiting.append(self._pool.submit(function, part))
                if len(waiting) >= 2 * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise EngineError(
                "A worker process died, perhaps for want of memory: run the same command again, it goes on from "
                "the last finished part; fewer --workers need less memory."
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def query(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> None:
        """Run by DuckDB on as many threads as there are workers."""
        self._duck.query(sql, tables, out)

    def close(self) -> None:
        """End the processes and the connection for queries."""
        self._duck.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
