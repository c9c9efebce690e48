"""What is done to the rows of a unit: a step sees the rows and where they lie, and judges nothing else.

So what becomes of a unit is the same whoever reads it. `batch_size` rows are seen together, if there is such a number;
a step that is `regular` gives as many rows as it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gristmill.arrow.files import Row
from gristmill.arrow.formats import columns_of
from gristmill.core.errors import ConfigError
from gristmill.core.functions import called
from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute


class Failed(Exception):
    """A function of the user's raised an error, which is the cause; whoever knows which rows it saw says so."""


class Step(Protocol):
    """A step of a data set."""

    @property
    def batch_size(self) -> int | None: ...
    @property
    def regular(self) -> bool: ...
    @property
    def with_indices(self) -> bool: ...
    @property
    def adds(self) -> bool:
        """Whether rows may have other values after it."""

    @property
    def word(self) -> str:
        """What a state calls it."""

    def __call__(self, rows: list[Row], places: Sequence[int], format: str) -> list[Row]:
        """The rows of a unit that come out; `places` are theirs in the order of the data set, for who asks."""


@dataclass(frozen=True)
class Function:
    """A function of the user's on a row, or on columns of at most `batch_size` rows if there is such a number."""

    function: Callable[..., object]
    batch_size: int | None
    with_indices: bool
    kwargs: Mapping[str, object]

    @property
    def word(self) -> str:
        return f"({self.batch_size})" if self.batch_size else ""

    def on_row(self, row: Row, places: Sequence[int], number: int) -> object:
        """What it says of a row."""
        return self._call((row, places[number]) if self.with_indices else (row,))

    def on_columns(
        self, rows: list[Row], places: Sequence[int], format: str
    ) -> Iterator[tuple[list[Row], Row, Row, object]]:
        """What it says of each batch of rows; their columns, and those that it was given, beside."""
        size = self.batch_size or 1
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            columns = columns_of(some, format)
            given = dict(columns)
            indices = (list(places[start : start + size]),) if self.with_indices else ()
            yield some, columns, given, self._call((given, *indices))

    def _call(self, given: tuple[object, ...]) -> object:
        try:
            return self.function(*given, **self.kwargs)
        except Exception as error:
            raise Failed(called(self.function)) from error


@dataclass(frozen=True)
class Filter:
    """Leaves out the rows for which the function says no."""

    function: Function
    regular = False

    @property
    def batch_size(self) -> int | None:
        return self.function.batch_size

    @property
    def adds(self) -> bool:
        return self.batch_size is not None  # entries of a column are not what was put into it

    @property
    def with_indices(self) -> bool:
        return self.function.with_indices

    @property
    def word(self) -> str:
        return f"filter{self.function.word}"

    def __call__(self, rows: list[Row], places: Sequence[int], format: str) -> list[Row]:
        asked = self.function
        if asked.batch_size is None:  # what it does to the dict that it is given stays its own
            return [row for number, row in enumerate(rows) if asked.on_row(dict(row), places, number)]
        answers = asked.on_columns(rows, places, format)
        return [row for some, columns, _, answer in answers for row in self._kept(some, columns, answer)]

    def _kept(self, rows: list[Row], columns: Row, answer: object) -> list[Row]:
        flags = list(answer) if isinstance(answer, Sequence) or hasattr(answer, "__array__") else []  # type: ignore[call-overload]
        if len(flags) != len(rows):
            raise ConfigError(
                f"The function of a batched filter must return {len(rows)} times yes or no, it returned "
                f"{type(answer).__name__}."
            )
        if not columns:
            return list(itertools.compress(rows, flags))
        values = itertools.compress(zip(*columns.values(), strict=True), flags)
        return [dict(zip(columns, row, strict=True)) for row in values]


@dataclass(frozen=True)
class Map:
    """Adds to rows what the function makes of them, in place of the columns to remove."""

    function: Function
    removed: frozenset[str]
    adds = True

    @property
    def batch_size(self) -> int | None:
        return self.function.batch_size

    @property
    def with_indices(self) -> bool:
        return self.function.with_indices

    @property
    def regular(self) -> bool:
        return self.function.batch_size is None

    @property
    def word(self) -> str:
        return f"map{self.function.word}"

    def __call__(self, rows: list[Row], places: Sequence[int], format: str) -> list[Row]:
        if self.regular:
            return [self._mapped(row, places, number) for number, row in enumerate(rows)]
        answers = self.function.on_columns(rows, places, format)
        return [row for _, columns, given, answer in answers for row in self._merged(columns, given, answer)]

    def _mapped(self, row: Row, places: Sequence[int], number: int) -> Row:
        given = dict(row)
        return self._added(row, given, self.function.on_row(given, places, number))

    def _merged(self, columns: Row, given: Row, answer: object) -> list[Row]:
        merged = self._added(columns, given, answer)
        if single := [name for name, values in merged.items() if not hasattr(values, "__len__")]:
            raise ConfigError(
                f"The function of a batched map must return columns, and {single[0]!r} is one "
                f"{type(merged[single[0]]).__name__}: return a list with an entry for each row."
            )
        lengths = {name: len(values) for name, values in merged.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(
                f"The function of map gives columns of different lengths {lengths}: name those that it replaces in "
                "remove_columns=."
            )
        return [dict(zip(merged, values, strict=True)) for values in zip(*merged.values(), strict=True)]

    def _added(self, row: Row, given: Row, answer: object) -> Row:
        """What came, with what the function made of it; a removed column stays gone if it returns what it was given."""
        if not isinstance(answer, Mapping):
            raise ConfigError(
                f"The function of map must return a dict of columns, it returned {type(answer).__name__}."
            )
        if not self.removed:
            return {**row, **answer}
        made = self._left(given) if answer is given else dict(answer)
        return {**self._left(row), **made}

    def _left(self, row: Row) -> Row:
        return {name: value for name, value in row.items() if name not in self.removed}


@dataclass(frozen=True)
class Part:
    """Of the examples of one unit the first `count` (`take`), or all but these (`skip`): a cut goes through it."""

    kind: str
    unit: int
    count: int

    def __call__(self, rows: list[Row], unit: int) -> list[Row]:
        if unit != self.unit:
            return rows
        return rows[: self.count] if self.kind == "take" else rows[self.count :]


@dataclass(frozen=True)
class Mixed:
    """The examples of each unit in an order of its own."""

    key: int

    def __call__(self, rows: list[Row], unit: int) -> list[Row]:
        order = permute(range(len(rows)), len(rows), derive_key(self.key, "examples", unit)) if rows else ()
        return [rows[i] for i in order]
