"""Spark: the same jobs and queries on a cluster, by a classic session or by Spark Connect alike.

Narrow work is `mapInArrow` over the numbers of parts, a Spark job for a wave of them. Waves grow, so that a small run
tells of its progress and a large one asks a cluster for all that it has; some are under way at once, so that none waits
for the stragglers of another. Wide work is Spark SQL over the files of the work folder, which all nodes see; a query
over little is answered by DuckDB on the driver, since Spark takes seconds to plan what DuckDB does in tenths. Where the
work folder is an address, `spark_tables.py` reads and writes its files.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from gristmill.core.cached import cached_property
from gristmill.core.errors import EngineError
from gristmill.core.extras import extra
from gristmill.engine.base import Means, P, R, part_of
from gristmill.engine.duck import Duck
from gristmill.engine.spark_session import make_session, told
from gristmill.engine.spark_tables import frame_of, nothing_guessed, written
from gristmill.engine.tasks import Task, taken
from gristmill.places.address import Address
from gristmill.places.door import sizes
from gristmill.places.local import disk_errors, sync_directory, temporary_path

with extra("spark", "gristmill.engine.spark"):
    from py4j.protocol import Py4JError
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import spark_partition_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Waves that run at once, and parts of the largest.
_WAVES, _MOST_PARTS = 3, 1024
# Seconds between two waves at the least, unless the first is done: Spark serves jobs in the order in which they come.
_APART = 1.0
# Bytes of Parquet that DuckDB reads on the driver rather than Spark on the cluster.
SMALL_QUERY = 1 << 30
_LACKING = re.compile(r"No module named '([\w.]+)'")
_OWN = re.compile(r"gristmill\.core\.errors\.\w+: (.+)")
_ROWS = "number long, answer binary"


class SparkEngine:
    """Runs a recipe where `session` runs; queries over at most `small_query` bytes by DuckDB, in `memory` bytes."""

    elsewhere = True

    def __init__(
        self,
        session: SparkSession,
        *,
        small_query: int = SMALL_QUERY,
        memory: int = 1 << 30,
        scratch: Path | None = None,
    ) -> None:
        self._session, self._small, self._tags = session, small_query, _tags(session)
        own = Path(tempfile.gettempdir()) / f"gristmill-{secrets.token_hex(8)}"
        self._duck = Duck(memory, scratch or own, threads=os.cpu_count() or 1)
        self._owned = False

    @cached_property
    def slots(self) -> int:
        """Parts that the cluster does at once, as it stands; Spark Connect is asked by a query, which takes seconds."""
        if not _connected(self._session):
            return self._session.sparkContext.defaultParallelism
        numbers = self._session.range(1 << 16).select(spark_partition_id().alias("part"))
        return 1 + int(numbers.agg({"part": "max"}).collect()[0][0])

    def start(self, function: Callable[[], None]) -> None:
        """Let executors load what the work will need; whether they could, the work itself will tell."""
        threading.Thread(target=self._warm, args=(function,), daemon=True).start()

    def _warm(self, function: Callable[[], None]) -> None:
        with suppress(Exception):
            list(self.map(_ready, [function] * self.slots))

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part on the executors; a part that fails by its worker's end is tried again by Spark."""
        tag = f"gristmill-{secrets.token_hex(8)}"
        waiting: deque[Future[list[bytes]]] = deque()
        threads = ThreadPoolExecutor(_WAVES, thread_name_prefix="gristmill-wave")
        try:
            for wave in _waves(parts, 2 * self.slots if len(parts) > 1 else 1):
                task = Task.of(function, wave, cloudpickle.dumps)
                wait(list(waiting)[-1:], timeout=_APART)
                waiting.append(threads.submit(self._wave, task, len(wave), tag))
                if len(waiting) >= _WAVES:
                    yield from cast(Iterator[R], map(taken, waiting.popleft().result()))
            while waiting:
                yield from cast(Iterator[R], map(taken, waiting.popleft().result()))
        finally:
            self._end(threads, waiting, tag)

    def _end(self, threads: ThreadPoolExecutor, waiting: deque[Future[list[bytes]]], tag: str) -> None:
        """Leave no Spark job behind where somebody goes before its results have come."""
        for future in waiting:
            future.cancel()
        if any(not future.done() for future in waiting):
            with suppress(PySparkException, Py4JError):
                self._tags.cancel(tag)
        threads.shutdown(wait=False, cancel_futures=True)

    def _wave(self, task: Task, parts: int, tag: str) -> list[bytes]:
        """The answers to the parts of a task, one a partition of a Spark job."""
        with spark_errors("jobs"):
            self._tags.add(tag)
            rows = self._session.range(0, parts, 1, parts).mapInArrow(_answering(task), _ROWS).collect()
        answers = {row["number"]: bytes(row["answer"]) for row in rows}
        return [answers[number] for number in range(parts)]

    def query(self, sql: str, tables: Mapping[str, Sequence[Address]], out: Address) -> list[Address]:
        """The rows of `sql`: `out`, or `part_of(out, i)` for each of the files that Spark has written."""
        if sum(sizes(os.fspath(file) for files in tables.values() for file in files)) <= self._small:
            return self._duck.query(sql, tables, out)
        with disk_errors(out), spark_errors(f"the query for {out.name}"):
            if isinstance(out, Path):
                return self._in_folder(sql, tables, out)
            with nothing_guessed(self._session), self._views(sql, tables) as rows:
                return written(rows, out)

    def _in_folder(self, sql: str, tables: Mapping[str, Sequence[Address]], out: Path) -> list[Address]:
        """In a folder that all nodes see, Spark reads and writes by itself."""
        folder = temporary_path(out.absolute())
        try:
            with self._views(sql, tables) as rows:
                rows.write.option("compression", "zstd").parquet(f"file://{folder}")
            return _published(folder, out)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _views(self, sql: str, tables: Mapping[str, Sequence[Address]]) -> Iterator[DataFrame]:
        """The rows of a query, whose tables have names that nobody else in this session uses."""
        names = {name: f"gristmill_{secrets.token_hex(8)}_{name}" for name in tables}
        try:
            for name, files in tables.items():
                self._table(files, sql).createOrReplaceTempView(names[name])
            yield self._session.sql(_with_tables(sql, names))
        finally:
            for name in names.values():
                self._session.catalog.dropTempView(name)

    def _table(self, files: Sequence[Address], sql: str) -> DataFrame:
        folders = [file for file in files if isinstance(file, Path)]
        if len(folders) == len(files):
            return self._session.read.parquet(*map(_address, folders))
        return frame_of(self._session, files, sql)

    def close(self) -> None:
        """Stop the session, if it is this engine's own."""
        self._duck.close()
        if self._owned:
            self._session.stop()


def spark_engine(means: Means) -> SparkEngine:
    """An engine with a session of its own."""
    session = make_session(means.master, means.remote, means.workers)
    engine = SparkEngine(session, memory=means.memory, scratch=means.scratch)
    engine._owned = True
    return engine


class _Tags(NamedTuple):
    """How jobs of this thread are marked, and how all that are marked so are ended."""

    add: Callable[[str], object]
    cancel: Callable[[str], object]


def _connected(session: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has no context."""
    return "connect" in type(session).__module__


def _tags(session: SparkSession) -> _Tags:
    """A classic session's own tags do not reach what Python collects (pyspark 4.3); those of its context do."""
    if _connected(session):
        return _Tags(session.addTag, session.interruptTag)
    return _Tags(session.sparkContext.addJobTag, session.sparkContext.cancelJobsWithTag)


def _ready(function: Callable[[], None]) -> None:
    function()


def _waves(parts: Sequence[P], first: int) -> Iterator[Sequence[P]]:
    """Parts in waves, each twice as long as the one before."""
    begin, size = 0, first
    while begin < len(parts):
        yield parts[begin : begin + size]
        begin, size = begin + size, min(2 * size, max(_MOST_PARTS, first))


def _answering(task: Task) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs on an executor, numbers of parts in and answers out.

    It is pickled whole, so that an executor without this package can still say so.
    """
    pickled = pickle.dumps(task)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pickle.loads(pickled).answer(number)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int64()), pa.array([answer], pa.binary())], names=["number", "answer"]
                )

    return run


def _address(file: Path) -> str:
    """A file as Spark is to read it, which takes every path for a pattern."""
    return "file://" + re.sub(r"([\\{}\[\]*?,])", r"\\\1", str(file.absolute()))


def _with_tables(sql: str, names: Mapping[str, str]) -> str:
    """A query whose tables are views of other names."""
    tables = ", ".join(f"{name} AS (SELECT * FROM {view})" for name, view in names.items())
    rest = re.sub(r"^\s*WITH\s", ", ", sql, flags=re.IGNORECASE)
    return f"WITH {tables}{rest}" if rest != sql else f"WITH {tables} {sql}"


def _published(folder: Path, out: Path) -> list[Address]:
    """The files that Spark wrote, in order, under the names of a query's rows; few, as many as a shuffle has parts."""
    parts = sorted(folder.glob("part-*.parquet"))
    found = [part_of(out, number) for number in range(len(parts))]
    for part, path in zip(parts, found, strict=True):
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    sync_directory(out.parent)
    return [*found]


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Whatever Spark says, as an error of ours."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if own := _OWN.search(str(error)):
            raise EngineError(own[1]) from error
        if lacking := _LACKING.search(str(error)):
            raise EngineError(
                f"The executors of Spark have no {lacking[1]}: install gristmill on every node, for the Python that "
                "they run (PYSPARK_PYTHON), in the version of the driver; docs/spark.md says more."
            ) from error
        raise EngineError(f"Spark gave up {what}: {told(error)}") from error
