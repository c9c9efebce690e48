"""What a run has been served, kept while it runs: a row a step, and its loss where the trainer tells it.

A record is a folder of small Parquet files, which Arrow, DuckDB, pandas and Polars read as one table. Each file appears
whole, every two seconds, written by a thread of its own: the loop only adds to a list, and a process that is killed
loses what it was served in the last seconds. Sixteen files of one size become one, so that a month leaves dozens.

Every rank that records writes files of its own. Where steps are served again, after a checkpoint was loaded, a new
attempt begins: who reads takes the rows of the last attempt that came by, see `figures/served.py`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import PathLike, as_whole, refuse
from gristmill.core.errors import ConfigError, EngineError, GristmillError
from gristmill.core.locks import Lock
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import absolute, address_of, as_target, place_at
from gristmill.places.traffic import traffic

if TYPE_CHECKING:
    import pyarrow as pa

RECORD, PLAN = "served.parquet", "plan.json"
WRITE_SECONDS = 2.0
_TOGETHER = 16
_MERGED_BYTES = 64 << 20
# Where nothing can be written, rows are kept for a later try up to here, some 200 MB.
_MOST_ROWS = 1 << 20
_NAME = re.compile(r"rank-(\d{5})-(\d{9})-(\d{9})\.parquet")
_COUNTED = ("cache_hits", "cache_misses", "fetched_bytes")
Losses = npt.NDArray[np.float64]


class Part(NamedTuple):
    """A file of a record: those of a rank are numbered, and a merged one has the numbers [first, last] of its parts."""

    rank: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """How the file is called."""
        return f"rank-{self.rank:05d}-{self.first:09d}-{self.last:09d}.parquet"

    def holds(self, other: Part) -> bool:
        """Whether the rows of another file are in this one, too."""
        return self != other and self.rank == other.rank and self.first <= other.first and other.last <= self.last


def parts_of(folder: Address) -> list[Part]:
    """The files of a record that count, by rank and number; those whose rows are in a merged one do not."""
    found = [Part(*map(int, named.groups())) for name in place_at(folder).names() if (named := _NAME.fullmatch(name))]
    kept: list[Part] = []
    for part in sorted(found, key=lambda part: (part.rank, part.first, -part.last)):
        if not (kept and kept[-1].holds(part)):
            kept.append(part)
    return kept


def record_in(path: Address) -> Address:
    """Where the record of a run lies: in its folder, unless it is named itself."""
    return path if path.suffix == ".parquet" else path / RECORD


def is_run(path: Address) -> bool:
    """Whether a loader has recorded here."""
    record = record_in(path)
    return place_at(record).is_folder() and bool(parts_of(record))


class _Row(NamedTuple):
    step: int
    at: float
    waited: float
    tokens: int


@dataclass
class _Attempt:
    """A stretch of rising steps: it has the number of its first file, so that a later one has a higher number."""

    number: int | None = None
    rows: list[_Row] = field(default_factory=list)
    losses: dict[int, object] = field(default_factory=dict)

    def take(self) -> _Attempt:
        """What has come so far, to be written; the attempt itself goes on without it."""
        taken = _Attempt(self.number, self.rows, self.losses)
        self.rows, self.losses = [], {}
        return taken

    def give_back(self, taken: _Attempt) -> None:
        """What could not be written, to be tried again."""
        self.rows, self.losses = taken.rows + self.rows, {**taken.losses, **self.losses}


class Record:
    """The record of one rank at `path`, a folder whose name ends with .parquet; with a plan, plan.json lies beside it.

    `served` is told of every batch that the loop takes, `loss` of what came of it: both only add to a list.
    """

    def __init__(self, path: PathLike, plan: Plan | None = None, rank: int = 0, world_size: int = 1) -> None:
        folder = as_target("path", path)
        if folder.suffix != ".parquet" or place_at(folder).is_file():
            raise ConfigError(
                f"A record is a folder whose path ends with .parquet, and {folder} is none: give run/{RECORD}, say.",
                arguments="path",
            )
        self._written = _Written(folder, rank, world_size)
        self._last: int | None = None
        self._thread: tuple[threading.Thread, threading.Event] | None = None
        self._pid = os.getpid()
        self.keep_plan(plan)
        weakref.finalize(self, self._written.finish, self._pid)

    def keep_plan(self, plan: Plan | None) -> None:
        """Write the plan beside the record, where it is not there yet."""
        if plan is None:
            return
        place, text = place_at(self._written.folder.parent / PLAN), _from_anywhere(plan.to_json())
        if not place.exists() or place.read() != text.encode():
            place.write(text)

    def served(self, step: int, tokens: int, waited: float) -> None:
        """A batch of `tokens` tokens was taken, after `waited` seconds."""
        if os.getpid() != self._pid:  # a forked process has a copy of the loader, and no part in this run
            return
        if self._last is not None and step <= self._last:
            self._written.begin()
        self._last = step
        self._written.add(_Row(step, time.time(), waited, tokens))
        if self._thread is None:
            self._start()

    def loss(self, loss: object, step: int | None = None) -> None:
        """The loss of a step, by default of the last one: a number, or one for each of this rank's rows."""
        step = self._last if step is None else as_whole("step", step, 0)
        if step is None or self._last is None or step > self._last:
            raise ConfigError(f"Step {step} has not been served yet, so that it has no loss.", arguments="step")
        self._written.add_loss(step, _kept(loss))

    def close(self) -> None:
        """Write what has come; the next batch begins again."""
        if os.getpid() != self._pid:
            return
        if self._thread is not None:
            thread, ended = self._thread
            ended.set()
            thread.join()
            self._thread = None
        self._written.try_to_write()

    def _start(self) -> None:
        ended = threading.Event()
        thread = threading.Thread(target=_write_on, args=(self._written, ended), name="gristmill-record", daemon=True)
        self._thread = thread, ended
        weakref.finalize(self, ended.set)
        thread.start()


def _from_anywhere(plan: str) -> str:
    """The JSON of a plan with the full paths of its stores: a run is looked at from other folders than its own."""
    values = json.loads(plan)
    for pin in values["sources"].values():
        given = pin["path"]
        full = [str(absolute(address_of(path))) for path in (given if isinstance(given, list) else [given])]
        pin["path"] = full if isinstance(given, list) else full[0]
    return json.dumps(values, indent=2) + "\n"


def _write_on(written: _Written, ended: threading.Event) -> None:
    while not ended.wait(WRITE_SECONDS):
        written.try_to_write()


def _kept(loss: object) -> Any:
    """A loss as it is now. A tensor stays where it is: to wait for its device is left to the thread that writes."""
    if hasattr(loss, "detach") and hasattr(loss, "clone"):
        kept = loss.detach().clone()
    else:
        try:
            kept = np.array(loss, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise refuse("loss", "a number, or one for each row", loss) from error
    if kept.ndim > 1 or loss is None:
        raise refuse("loss", "a number, or one for each row", loss)
    return kept


def _numbers(kept: Any) -> Losses:
    """The loss, or those of the rows, on the host."""
    if hasattr(kept, "detach"):
        kept = kept.double().cpu().numpy()
    return np.asarray(kept, dtype=np.float64)


class _Written:
    """The files of one rank, and the rows that are not in them yet."""

    def __init__(self, folder: Address, rank: int, world_size: int) -> None:
        self.folder, self._rank, self._world_size = folder, rank, world_size
        self._lock, self._writes = Lock(), Lock()
        self._attempts = [_Attempt()]
        self._rows = 0
        self._next: int | None = None
        self._recent: list[tuple[Part, int]] = []
        self._traffic = traffic.figures()
        self._warned = False

    def begin(self) -> None:
        """Steps are served again: a new attempt."""
        with self._lock:
            self._attempts.append(_Attempt())

    def add(self, row: _Row) -> None:
        with self._lock:
            self._attempts[-1].rows.append(row)
            self._rows += 1
        if self._rows > _MOST_ROWS:
            raise EngineError(f"{self.folder} cannot be written, and {_MOST_ROWS:,} steps wait for it: free some room.")

    def add_loss(self, step: int, loss: object) -> None:
        with self._lock:
            self._attempts[-1].losses[step] = loss

    def finish(self, pid: int) -> None:
        """Write what is left when nobody holds the record any more, or when Python ends."""
        if os.getpid() == pid:
            self.try_to_write()

    def try_to_write(self) -> None:
        """Write, or say once why that cannot be: training goes on, and the rows wait for a better time."""
        try:
            self.write()
            self._warned = False
        except (OSError, GristmillError) as error:
            if not self._warned:
                self._warned = True
                warnings.warn(f"{self.folder} cannot be written now, and will be tried again: {error}", stacklevel=2)

    def write(self) -> None:
        """All rows that have come, a file an attempt."""
        with self._writes:
            while len(self._attempts) > 1:
                self._write_attempt(self._attempts[0])
                with self._lock:
                    if not self._attempts[0].rows:
                        self._attempts.pop(0)
            self._write_attempt(self._attempts[0])

    def _write_attempt(self, attempt: _Attempt) -> None:
        with self._lock:
            taken = attempt.take()
        if not taken.rows and not taken.losses:
            return
        try:
            number = self._number()
            attempt.number = number if attempt.number is None else attempt.number
            self._write_part(Part(self._rank, number, number), self._table(taken, attempt.number))
        except BaseException:
            with self._lock:
                attempt.give_back(taken)
            raise
        self._next = number + 1
        with self._lock:
            self._rows -= len(taken.rows)
        self._merge()

    def _number(self) -> int:
        """The next file's; the first time after those that earlier processes left."""
        if self._next is None:
            place_at(self.folder).make_folder()
            self._next = 1 + max((part.last for part in parts_of(self.folder) if part.rank == self._rank), default=-1)
        return self._next

    def _table(self, taken: _Attempt, attempt: int) -> pa.Table:
        import pyarrow as pa

        from gristmill.loader.record_schema import SCHEMA

        losses = {step: _numbers(loss) for step, loss in taken.losses.items()}
        late = sorted(losses.keys() - {row.step for row in taken.rows})  # losses of steps that are written already
        steps, unknown = [*(row.step for row in taken.rows), *late], [None] * len(late)
        told = [losses.get(step) for step in steps]
        counted, before = traffic.since(self._traffic), [None] * (len(steps) - 1)
        columns: dict[str, list[object]] = {
            "step": list(steps),
            "attempt": [attempt] * len(steps),
            "rank": [self._rank] * len(steps),
            "world_size": [self._world_size] * len(steps),
            "at": [*(row.at for row in taken.rows), *unknown],
            "waited": [*(row.waited for row in taken.rows), *unknown],
            "tokens": [*(row.tokens for row in taken.rows), *unknown],
            "loss": [None if loss is None else float(loss.mean()) for loss in told],
            "row_losses": [None if loss is None or not loss.ndim else loss for loss in told],
            "highest_loss": [None if loss is None or not loss.ndim or not len(loss) else loss.max() for loss in told],
            **{name: [*before, counted[name]] for name in _COUNTED},
        }
        return pa.Table.from_pydict(columns, SCHEMA)

    def _write_part(self, part: Part, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        place = place_at(self.folder / part.name)
        with place.writing() as file:
            pq.write_table(table, file, compression="zstd")
        self._recent.append((part, place.size()))

    def _merge(self) -> None:
        """Let the last files of one size become one; what they were is removed only then."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        while len(self._recent) >= _TOGETHER:
            last = self._recent[-_TOGETHER:]
            widths = {part.last - part.first for part, _ in last}
            if len(widths) > 1 or sum(size for _, size in last) > _MERGED_BYTES:
                return
            old = [self.folder / part.name for part, _ in last]
            tables = [pq.ParquetFile(pa.BufferReader(place_at(path).read())).read(use_threads=False) for path in old]
            del self._recent[-_TOGETHER:]
            self._write_part(Part(self._rank, last[0][0].first, last[-1][0].last), pa.concat_tables(tables))
            for path in old:
                place_at(path).remove()
