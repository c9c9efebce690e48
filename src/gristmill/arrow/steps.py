"""What is done to the rows of a unit: a step sees the rows and the place of the first, and judges nothing else.

So what becomes of a unit is the same whoever reads it. `at_once` rows are seen together; a step that is `regular` gives
as many rows as it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gristmill.arrow.files import Row
from gristmill.core.errors import ConfigError


class Step(Protocol):
    """A step of a data set."""

    @property
    def at_once(self) -> int: ...
    @property
    def regular(self) -> bool: ...
    @property
    def word(self) -> str:
        """What a state calls it."""

    def __call__(self, rows: list[Row], first: int) -> list[Row]: ...


@dataclass(frozen=True)
class Function:
    """A function of the user's on a row, or on columns of at most `at_once` rows if there is such a number."""

    function: Callable[..., object]
    batch_size: int | None
    with_indices: bool
    kwargs: Mapping[str, object]

    @property
    def at_once(self) -> int:
        return self.batch_size or 1

    @property
    def word(self) -> str:
        return f"({self.batch_size})" if self.batch_size else ""

    def answers(self, rows: list[Row], first: int) -> Iterator[tuple[list[Row], object]]:
        """What it says of each row, or of each batch of them; `first` is the place of the first row."""
        for start in range(0, len(rows), self.at_once):
            some, place = rows[start : start + self.at_once], first + start
            given: tuple[object, ...] = (some[0], place)
            if self.batch_size is not None:
                given = columns_of(some), [*range(place, place + len(some))]
            yield some, self.function(*given[: 1 + self.with_indices], **self.kwargs)


@dataclass(frozen=True)
class Filter:
    """Leaves out the rows for which the function says no."""

    function: Function
    regular = False

    @property
    def at_once(self) -> int:
        return self.function.at_once

    @property
    def word(self) -> str:
        return f"filter{self.function.word}"

    def __call__(self, rows: list[Row], first: int) -> list[Row]:
        return [row for some, answer in self.function.answers(rows, first) for row in self._kept(some, answer)]

    def _kept(self, rows: list[Row], answer: object) -> list[Row]:
        if self.function.batch_size is None:
            return rows if answer else []
        flags = list(answer) if isinstance(answer, Sequence) or hasattr(answer, "__array__") else []  # type: ignore[call-overload]
        if len(flags) != len(rows):
            raise ConfigError(
                f"The function of a batched filter must return {len(rows)} times yes or no, it returned "
                f"{type(answer).__name__}."
            )
        return list(itertools.compress(rows, flags))


@dataclass(frozen=True)
class Map:
    """Adds to rows what the function makes of them, in place of the columns to remove."""

    function: Function
    removed: frozenset[str]

    @property
    def at_once(self) -> int:
        return self.function.at_once

    @property
    def regular(self) -> bool:
        return self.function.batch_size is None

    @property
    def word(self) -> str:
        return f"map{self.function.word}"

    def __call__(self, rows: list[Row], first: int) -> list[Row]:
        return [row for some, answer in self.function.answers(rows, first) for row in self._merged(some, answer)]

    def _merged(self, rows: list[Row], answer: object) -> list[Row]:
        if not isinstance(answer, Mapping):
            raise ConfigError(
                f"The function of map must return a dict of columns, it returned {type(answer).__name__}."
            )
        if self.regular:
            return [self._added(rows[0], answer)]
        merged = self._added(columns_of(rows), answer)
        lengths = {name: len(values) for name, values in merged.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(
                f"The function of map gives columns of different lengths {lengths}: name those that it replaces in "
                "remove_columns=."
            )
        return [dict(zip(merged, values, strict=True)) for values in zip(*merged.values(), strict=True)]

    def _added(self, row: Row, made: Mapping[str, object]) -> Row:
        return {name: value for name, value in row.items() if name not in self.removed} | dict(made)


@dataclass(frozen=True)
class Window:
    """The examples before (`take`) or after (`skip`) number `count` of those that come here.

    Which place that is must be looked up by reading, so a window is opened for an epoch before it is used: `edge` is
    the first row of the unit in which it lies, and how many examples of that unit come before it.
    """

    kind: str
    count: int
    edge: tuple[int, int] | None = None
    at_once = 1
    regular = False

    @property
    def word(self) -> str:
        return f"{self.kind}({self.count})"

    def __call__(self, rows: list[Row], first: int) -> list[Row]:
        assert self.edge is not None
        place, count = self.edge
        before = len(rows) if first < place else count if first == place else 0
        return rows[:before] if self.kind == "take" else rows[before:]


def columns_of(rows: Sequence[Row]) -> Row:
    """Rows as columns, which have those of the first row."""
    return {name: [row[name] for row in rows] for name in rows[0]}
