"""What a Spark DataFrame is asked: one query that counts it, then short ones for the rows of a few ranges of keys.

A row's key is Spark's own xxhash64 of its id, or of its text where it has none; its sum is that of all that is used of
it. Both are fixed by Spark's documentation, and neither depends on partitions, so that a range of keys has the same
rows whenever it is asked for. No query runs longer than it takes to give 256 MiB of text: Spark Connect ends those that
go on for minutes.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 (its hook for the end of a program has to be there before ours)
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from gristmill.core.arguments import refuse
from gristmill.core.errors import ConfigError, EngineError, GristmillError, did_you_mean
from gristmill.engine.spark_session import told

# The column by which `clustered` sorts a table; a DataFrame that has it is asked by it.
KEY_COLUMN = "gristmill_key"
# Rows are counted by the first 20 bits of their keys: a million buckets at most, 40 MB while they are counted.
BUCKET_BITS = 20
KEY_SHIFT = 64 - BUCKET_BITS
_LOW = (1 << 32) - 1
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")
# Seconds in which Spark has to answer a query, unless somebody says otherwise.
PATIENCE = 600.0
# Seconds for which a program that ends waits for the queries that it has begun.
_LAST_SECONDS = 60.0
# Seconds before a session that failed is opened again, and again.
_PAUSES = (1.0, 5.0)
Answer = TypeVar("Answer")


class Frame(Protocol):
    """What is asked of a DataFrame, a classic one or one of Spark Connect."""

    @property
    def schema(self) -> Any: ...
    def selectExpr(self, *expressions: str) -> Frame: ...
    def where(self, condition: str) -> Frame: ...
    def groupBy(self, *columns: str) -> Any: ...


class Session:
    """A DataFrame, opened again by its function when Spark fails, or in another process, if it was given as one.

    patience: seconds in which Spark has to answer a query; Spark Connect never answers one whose session has ended.
    """

    def __init__(self, given: Frame | Callable[[], Frame], patience: float = PATIENCE) -> None:
        self._open, self._patience = given if callable(given) else None, patience
        self._frame, self._owner = None if callable(given) else _checked(given), os.getpid()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        if self._open is None:
            raise TypeError("a DataFrame stays in the process of its session; give a function that returns it")
        return {"_open": self._open, "_patience": self._patience, "_frame": None, "_owner": 0}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def ask(self, query: Callable[[Frame], Answer]) -> Answer:
        """The answer to a query. What fails is asked three times if the DataFrame can be opened again."""
        for pause in _PAUSES if self._open else ():
            try:
                return self._asked(query)
            except GristmillError:
                raise
            except Exception:  # of Java, of the network, or of a session that has been stopped: Spark has many
                time.sleep(pause)
        try:
            return self._asked(query)
        except GristmillError:
            raise
        except Exception as error:
            why = f"it took over {self._patience:,.0f} s." if isinstance(error, TimeoutError) else told(error)
            again = "" if self._open else " Give a function that returns the DataFrame, and it is opened again."
            raise EngineError(f"Spark did not answer a query of the DataFrame: {why}{again}") from error

    def _asked(self, query: Callable[[Frame], Answer]) -> Answer:
        frame = self._current()
        try:
            return _in_time(lambda: query(frame), self._patience)
        except GristmillError:
            raise
        except Exception:
            self._forget(frame)
            raise

    def _current(self) -> Frame:
        with self._lock:
            if self._frame is not None and self._owner == os.getpid():
                return self._frame
            if self._open is None:
                raise ConfigError(
                    "A DataFrame stays in the process of its session: give SparkStreamLoader a function that opens a "
                    "session and returns the DataFrame, and each process calls it."
                )
            self._frame, self._owner = _checked(self._open()), os.getpid()
            return self._frame

    def _forget(self, frame: Frame) -> None:
        """Open the DataFrame anew for the next query, where that can be."""
        with self._lock:
            if self._open is not None and self._frame is frame:
                self._frame = None


def _in_time(query: Callable[[], Answer], seconds: float) -> Answer:
    """The answer, by a thread that nobody has to wait for, or TimeoutError."""
    if _ending.is_set():
        raise EngineError("The program is ending: Spark is asked nothing more.")
    answer: Future[Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(query())
        except BaseException as error:
            answer.set_exception(error)
        finally:
            _asked.discard(answer)

    _asked.add(answer)
    threading.Thread(target=run, name="gristmill-query", daemon=True).start()
    return answer.result(seconds)


# Spark Connect cannot end a query once Python has begun to end its threads, and the program would never exit. So what
# is asked is waited for before that, and nothing more is asked. The hook of `concurrent.futures` is older, and comes
# after ours.
_asked: set[Future[Any]] = set()
_ending = threading.Event()


def _end() -> None:
    _ending.set()
    wait(list(_asked), _LAST_SECONDS)


getattr(threading, "_register_atexit", atexit.register)(_end)
os.register_at_fork(after_in_child=_asked.clear)


def _checked(frame: Frame) -> Frame:
    if not all(hasattr(frame, name) for name in ("selectExpr", "where", "schema")):
        raise refuse("df", "a Spark DataFrame, or a function that returns one", frame)
    return frame


@dataclass(frozen=True)
class Columns:
    """Which columns are read: texts or lists of token ids, ids if there are any, and those that are carried."""

    text: str
    id: str | None
    fields: tuple[str, ...]
    holds_ids: bool
    keyed: bool

    @property
    def key(self) -> str:
        """The key of a row, in SQL."""
        if self.keyed:
            return quoted(KEY_COLUMN)
        return f"xxhash64({_string(self.id) if self.id else quoted(self.text)})"

    @property
    def sum(self) -> str:
        """The checksum of a row, in SQL."""
        carried = [_string(name) for name in (*([self.id] if self.id else []), *self.fields)]
        return f"xxhash64({', '.join([quoted(self.text), *carried])})"

    @property
    def size(self) -> str:
        """Bytes of a row's text, or 4 for each of its token ids, in SQL."""
        text = quoted(self.text)
        return f"coalesce({f'4 * size({text})' if self.holds_ids else f'octet_length({text})'}, 0)"


def find_columns(frame: Frame, text: str, id: str | None, fields: Sequence[str]) -> Columns:
    """The columns of these names, if they are there and of kinds that can be read."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    for name in (text, *([id] if id else []), *fields):
        if name not in kinds:
            raise ConfigError(
                f"The DataFrame has no column {name!r}{did_you_mean(name, kinds)}: it has {', '.join(kinds)}."
            )
    kind = kinds[text]
    holds_ids = kind in [f"array<{each}>" for each in _INTEGERS]
    if not holds_ids and kind.partition("(")[0] not in _TEXTS:
        raise ConfigError(f"The column {text!r} is {kind}: it must be string, or array<int> of token ids.")
    if id and kinds[id].partition("(")[0] not in (*_TEXTS, *_INTEGERS):
        raise ConfigError(f"The column {id!r} is {kinds[id]}: ids are string, int or bigint.")
    if kinds.get(KEY_COLUMN, "bigint") != "bigint":
        raise ConfigError(f"The column {KEY_COLUMN!r} is {kinds[KEY_COLUMN]}: clustered() makes it as bigint.")
    return Columns(text, id or None, tuple(fields), holds_ids, KEY_COLUMN in kinds)


def count_buckets(frame: Frame, columns: Columns) -> pa.Table:
    """Of each bucket of keys its number, rows, bytes, and two sums over the checksums of its rows."""
    shown = frame.selectExpr(
        f"shiftright({columns.key}, {KEY_SHIFT}) as bucket", "1 as rows", f"cast({columns.size} as bigint) as bytes",
        f"{columns.sum} & {_LOW} as low", f"{columns.sum} as whole",
    )  # fmt: skip
    found = shown.groupBy("bucket").agg({"rows": "sum", "bytes": "sum", "low": "sum", "whole": "bit_xor"})
    return as_table(found).select(["bucket", "sum(rows)", "sum(bytes)", "sum(low)", "bit_xor(whole)"])


def rows_within(frame: Frame, columns: Columns, prefixes: Sequence[int], shift: int) -> Frame:
    """The rows whose keys begin with one of `prefixes`, in no order: key, whole (checksum), text, id, and fields."""
    carried = [f"{_string(name)} as field{i}" for i, name in enumerate(columns.fields)]
    id = [f"{_string(columns.id)} as id"] if columns.id else []
    shown = frame.selectExpr(f"{columns.key} as key", f"{columns.sum} as whole", f"{quoted(columns.text)} as text", *id,
                             *carried)  # fmt: skip
    return shown.where(_within(prefixes, shift) if columns.keyed else _among(prefixes, shift))


def as_table(frame: Any) -> pa.Table:
    """All rows of a DataFrame."""
    return frame.toArrow() if hasattr(frame, "toArrow") else packed_table(frame)  # which Spark 3.5 has not


def packed_table(frame: Any) -> pa.Table:
    """The same by `mapInArrow`: batches come as bytes, one a row. Executors need pyarrow, and nothing of ours."""

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pyarrow.record_batch({"rows": pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())})

    found = [
        pa.ipc.open_stream(bytes(row["rows"])).read_all() for row in frame.mapInArrow(packed, "rows binary").collect()
    ]
    # Without a row there is no batch to tell the types of columns, and nobody will look at them.
    return pa.concat_tables(found) if found else pa.table({name: pa.array([], pa.int64()) for name in frame.columns})


def clustered(df: Any, id_col: str | None = None, text_col: str = "text") -> Any:
    """The DataFrame with its key as a column, sorted by it: write it as a table, or persist it, and train from that.

    A range of keys lies together then, so that Spark reads what a query asks for and little else.
    """
    columns = find_columns(df, text_col, id_col, ())
    keyed = df.selectExpr("*", f"{columns.key} as {KEY_COLUMN}") if not columns.keyed else df
    return keyed.repartitionByRange(KEY_COLUMN).sortWithinPartitions(KEY_COLUMN)


def _among(prefixes: Sequence[int], shift: int) -> str:
    """A condition for keys that are computed for every row: one look-up each."""
    return f"shiftright(key, {shift}) in ({', '.join(map(str, prefixes))})"


def _within(prefixes: Sequence[int], shift: int) -> str:
    """A condition that files and row groups of a sorted column can be passed over by."""
    ranges = ((prefix << shift, (prefix + 1 << shift) - 1) for prefix in prefixes)
    return " or ".join(f"key between {_literal(low)} and {_literal(high)}" for low, high in ranges)


def _literal(number: int) -> str:
    """A bigint; the least of all cannot be spelt as one, being minus a number that is none."""
    return f"{number}L" if number > -(1 << 63) else f"(-{(1 << 63) - 1}L - 1L)"


def _string(name: str) -> str:
    return f"cast({quoted(name)} as string)"


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"
