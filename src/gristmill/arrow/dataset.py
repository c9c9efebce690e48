"""A data set over Arrow files for torch's DataLoader and torchdata's StatefulDataLoader, without importing either.

torch's IterableDataset is an abstract base class, so it can be told of a class that does not inherit from it. That is
done the moment someone asks what this data set is: importing torch takes over a second, opening the data set does not.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import pyarrow as pa

from gristmill.arrow.files import (
    ArrowFile,
    MappedFile,
    Piece,
    Row,
    numpy_rows,
    shard_pieces,
    shuffle_pieces,
)
from gristmill.core.arguments import as_choice, as_flag, as_function, as_names, as_whole
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.hashing import fingerprint
from gristmill.core.html import counted

STATE_VERSION = 1
# Rows turned into Python objects at once: few enough for a quick first row, enough to hide the cost of a slice.
_ROWS_AT_ONCE = 256
_FORMATS: Mapping[str, Callable[[pa.RecordBatch], list[Row]]] = {
    "python": pa.RecordBatch.to_pylist, "numpy": numpy_rows
}  # fmt: skip
Position = tuple[int, int, int]


class ArrowState(TypedDict):
    """A position in a data set, with what must be equal to go on from it: JSON, under 1 KB."""

    version: int
    data: str
    order: str
    workers: list[int]
    file: int
    row: int
    given: int


@dataclass(frozen=True)
class Filter:
    """Leaves out the rows for which the function says no; of these `at_once` are seen together, here each alone."""

    function: Callable[[Row], object]
    at_once: int = 1

    def __call__(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if self.function(row)]


@dataclass(frozen=True)
class Map:
    """Adds to each row what the function makes of it, in place of the columns to remove."""

    function: Callable[[Row], Mapping[str, object]]
    removed: frozenset[str]
    at_once: int = 1

    def __call__(self, rows: list[Row]) -> list[Row]:
        return [self._merged(row, _checked(self.function(row))) for row in rows]

    def _merged(self, row: Row, made: Mapping[str, object]) -> Row:
        return {name: value for name, value in row.items() if name not in self.removed} | dict(made)


@dataclass(frozen=True)
class BatchedMap(Map):
    """The same on columns of at most `at_once` rows; the function may give more or fewer rows than it had."""

    def __call__(self, rows: list[Row]) -> list[Row]:
        starts = range(0, len(rows), self.at_once)
        return [row for start in starts for row in self._mapped(rows[start : start + self.at_once])]

    def _mapped(self, rows: list[Row]) -> list[Row]:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        merged = self._merged(columns, _checked(self.function(columns)))
        lengths = {name: len(values) for name, values in merged.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(
                f"The function of map gives columns of different lengths {lengths}: name those that it replaces in "
                "remove_columns=."
            )
        return [dict(zip(merged, values, strict=True)) for values in zip(*merged.values(), strict=True)]


def _checked(made: Mapping[str, object]) -> Mapping[str, object]:
    if not isinstance(made, Mapping):
        raise ConfigError(f"The function of map must return a dict of columns, it returned {type(made).__name__}.")
    return made


class ArrowIterableDataset:
    """Rows of memory-mapped Arrow files as dicts; every method but the state's gives a new data set.

    The position is (file, row) in the order of this data set: resuming opens one file and goes on, however far it was.
    Under worker processes each worker reads its own run of rows; ranks are given by `shard(world_size, rank)`.
    """

    def __init__(self, files: Sequence[ArrowFile], pieces: Sequence[Piece]) -> None:
        self._files, self._pieces = tuple(files), tuple(pieces)
        self._order: tuple[str, ...] = ()
        self._steps: tuple[Filter | Map, ...] = ()
        self._format = "python"
        self._identity = fingerprint([[[file.size, file.rows] for file in files], [vars(piece) for piece in pieces]])
        self._restart()

    def _restart(self) -> None:
        self._position: Position = (0, 0, 0)
        self._resumes_for: list[int] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class; isinstance asks for it, and by then torch must know it."""
        base = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
        if base is not None:
            base.register(type(self))
        return type(self)

    def _changed(self, **attributes: object) -> ArrowIterableDataset:
        new = copy.copy(self)
        vars(new).update(attributes)
        new._restart()
        return new

    def __repr__(self) -> str:
        rows = sum(piece.length for piece in self._pieces)
        steps = "".join(f".{type(step).__name__.lower()}(...)" for step in self._steps)
        order = "".join(f".{each}" for each in self._order)
        return f"ArrowIterableDataset({counted(rows, 'row')} of {counted(len(self._files), 'file')}){order}{steps}"

    def shuffle(self, seed: int, rows: bool | None = None) -> ArrowIterableDataset:
        """The files in another order, and with `rows` the rows inside each of them: computed, nothing is buffered.

        Without `rows`, those of a data set that lies in a single file are shuffled: there is nothing else to move.
        """
        seed = as_whole("seed", seed, None)
        rows = len({piece.file for piece in self._pieces}) == 1 if rows is None else as_flag("rows", rows)
        words = f"shuffle({seed}, rows={rows})"
        return self._changed(_pieces=shuffle_pieces(self._pieces, seed, rows), _order=(*self._order, words))

    def shard(self, num_shards: int, index: int) -> ArrowIterableDataset:
        """One of `num_shards` runs of rows, as long as each other to one row, whatever the number of files."""
        num_shards, index = as_whole("num_shards", num_shards, None), as_whole("index", index, None)
        if num_shards < 1 or not 0 <= index < num_shards:
            raise ConfigError(f"shard({num_shards}, {index}) asks for no shard: index counts from 0 below num_shards.")
        words = f"shard({num_shards}, {index})"
        return self._changed(_pieces=shard_pieces(self._pieces, num_shards, index), _order=(*self._order, words))

    def map(
        self,
        function: Callable[[Row], Mapping[str, object]],
        batched: bool = False,
        batch_size: int = 1000,
        remove_columns: Sequence[str] = (),
    ) -> ArrowIterableDataset:
        """Rows with what the function returns merged in, one by one or as columns of at most `batch_size` rows.

        A batch never crosses from one file to the next. After a resume the batch under way is mapped again.
        """
        function, batch_size = as_function("function", function), as_whole("batch_size", batch_size)
        removed = frozenset(as_names("remove_columns", remove_columns))
        step = BatchedMap(function, removed, batch_size) if as_flag("batched", batched) else Map(function, removed)
        return self._changed(_steps=(*self._steps, step))

    def filter(self, function: Callable[[Row], object]) -> ArrowIterableDataset:
        """Only the rows for which the function says yes."""
        return self._changed(_steps=(*self._steps, Filter(as_function("function", function))))

    def with_format(self, format: str) -> ArrowIterableDataset:
        """`python` values (the default), or `numpy`: numbers and lists of numbers as views of the mapped file."""
        return self._changed(_format=as_choice("format", format, tuple(_FORMATS)))

    def __len__(self) -> int:
        """Rows of this data set; TypeError where a filter or a batched map decides it."""
        if any(not isinstance(step, Map) or isinstance(step, BatchedMap) for step in self._steps):
            raise TypeError(
                "The number of rows after filter or a batched map is known only by reading them all: count them by "
                "sum(1 for _ in dataset), or take the len() of the data set before that step."
            )
        return sum(piece.length for piece in self._pieces)

    def __iter__(self) -> Iterator[Row]:
        """Rows from the loaded state on, once; else from the start."""
        workers = _workers()
        if self._resumes_for not in (None, workers):
            raise StateError(
                f"The state was taken in worker {_worker_words(self._resumes_for)} and is read in worker "
                f"{_worker_words(workers)}: resume with the same num_workers."
            )
        start = self._position if self._resumes_for else (0, 0, 0)
        self._restart()
        self._position = start
        return self._read(shard_pieces(self._pieces, *workers), start)

    def _read(self, pieces: Sequence[Piece], start: Position) -> Iterator[Row]:
        """Each row, with the position after it noted beforehand: whoever holds a row may ask for the state."""
        for number, row, end, made in self._stretches(pieces, start):
            done = start[2] if (number, row) == start[:2] else 0
            for count, value in enumerate(made[done:], done + 1):
                self._position = (number, row, count) if count < len(made) else (number, end, 0)
                yield value
        self._position = (len(pieces), 0, 0)

    def _stretches(self, pieces: Sequence[Piece], start: Position) -> Iterator[tuple[int, int, int, list[Row]]]:
        """(piece, first row, end, what became of them) for the rows that must be mapped together: 1 if none must."""
        together = max((step.at_once for step in self._steps), default=1)
        for number in range(start[0], len(pieces)):
            first = start[1] if number == start[0] else 0
            rows = _rows(MappedFile(self._files[pieces[number].file]), pieces[number], first, self._format)
            for row in range(first, pieces[number].length, together):
                made = [value for _, value in zip(range(together), rows, strict=False)]
                end = row + len(made)
                for step in self._steps:
                    made = step(made)
                yield number, row, end, made

    def state_dict(self) -> ArrowState:
        """The position after the last row given."""
        file, row, given = self._position
        return {
            "version": STATE_VERSION,
            "data": self._identity,
            "order": " ".join(self._order),
            "workers": self._resumes_for or _workers(),
            "file": file,
            "row": row,
            "given": given,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Let the next iteration begin where `state` was taken; nothing is read for it."""
        own, place = self.state_dict(), cast(ArrowState, state)
        if not isinstance(state, dict) or state.keys() != own.keys() or state["version"] != STATE_VERSION:
            raise StateError(f"This is no state of an ArrowIterableDataset of version {STATE_VERSION}.")
        if state["data"] != own["data"]:
            raise StateError("The state belongs to other Arrow files: their number, sizes or rows differ.")
        if state["order"] != own["order"]:
            raise StateError(
                f"The state belongs to the order {state['order']!r}, this data set has {own['order']!r}: "
                "shuffle and shard it the same way."
            )
        self._position = (place["file"], place["row"], place["given"])
        self._resumes_for = list(place["workers"])


def _rows(file: MappedFile, piece: Piece, first: int, format: str) -> Iterator[Row]:
    """The rows of a piece from place `first` on."""
    for start in range(first, piece.length, _ROWS_AT_ONCE):
        for batch in file.take(piece.rows(start, min(start + _ROWS_AT_ONCE, piece.length))):
            yield from _FORMATS[format](batch)


def _workers() -> list[int]:
    """[number of worker processes, this one's number] under torch's DataLoader, else [1, 0]."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return [info.num_workers, info.id] if info else [1, 0]


def _worker_words(workers: list[int] | None) -> str:
    return "{1} of {0}".format(*workers or [1, 0])
