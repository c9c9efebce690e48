"""One pass over a data set: its rows in the order of an epoch, by units, through the steps."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gristmill.arrow.files import ArrowFile, MappedFile, Piece, Row, between_rows
from gristmill.arrow.formats import GIVEN, READ
from gristmill.arrow.left import Run, between
from gristmill.arrow.steps import Step, Window, columns_of
from gristmill.core.cached import cached_property

# Rows turned into Python objects at once: few enough for a quick first row, enough to hide the cost of a slice.
_ROWS_AT_ONCE = 256
# After an example: the number of a run, the unit in it, and how many examples of that unit have been given.
Place = tuple[int, int, int]


@dataclass(frozen=True)
class Pass:
    """Rows in order, and what is done to them: `steps` to those of a unit, `after` to batches of (size, drop_last)."""

    files: tuple[ArrowFile, ...]
    pieces: tuple[Piece, ...]
    steps: tuple[Step, ...]
    batch: tuple[int, bool] | None
    after: tuple[Step, ...]
    format: str

    @cached_property
    def unit(self) -> int:
        """Rows that must be mapped together: 1 if none must."""
        return max((step.at_once for step in self.steps), default=1)

    @cached_property
    def _rows(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @cached_property
    def _units(self) -> int:
        return -(-self._rows // self.unit)

    @cached_property
    def whole(self) -> tuple[Run, ...]:
        """All units, without those that windows leave out."""
        edges = [(step.kind, *step.edge) for step in self._ready if isinstance(step, Window) and step.edge]
        first = max((place // self.unit for kind, place, _ in edges if kind == "skip"), default=0)
        ends = [-(-(place + bool(count)) // self.unit) for kind, place, count in edges if kind == "take"]
        return tuple(between([Run(0, self._units)], first, min(ends, default=sys.maxsize)))

    @cached_property
    def _ready(self) -> tuple[Step, ...]:
        """The steps, windows opened."""
        steps: tuple[Step, ...] = ()
        for step in self.steps:
            steps += (replace(step, edge=self._edge(steps, step.count)) if isinstance(step, Window) else step,)
        return steps

    def _edge(self, steps: tuple[Step, ...], count: int) -> tuple[int, int]:
        """Where example number `count` of all that steps give lies: the first row of its unit, and its number there."""
        if all(step.regular for step in steps):
            within = min(count, self._rows) % self.unit
            return min(count, self._rows) - within, within
        for first, made in self._made(steps, Run(0, self._units)):
            if count < len(made):
                return first, count
            count -= len(made)
        return self._units * self.unit, 0

    def _made(self, steps: Sequence[Step], run: Run) -> Iterator[tuple[int, list[Row]]]:
        """The first row of each unit of a run, and what steps make of its rows."""
        rows = self._read(run.first * self.unit, run.stop * self.unit)
        for first in range(run.first * self.unit, run.stop * self.unit, self.unit):
            made = list(itertools.islice(rows, self.unit))
            for step in steps:
                made = step(made, first)
            yield first, made

    def _read(self, first: int, stop: int) -> Iterator[Row]:
        """The rows at places [first, stop)."""
        for piece in between_rows(self.pieces, first, stop):
            file = MappedFile(self.files[piece.file])
            for start in range(0, piece.length, _ROWS_AT_ONCE):
                for batch in file.take(piece.rows(start, min(start + _ROWS_AT_ONCE, piece.length))):
                    yield from READ[self.format](batch)

    def given(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        """Each example of runs of units, and the place after it."""
        last = GIVEN.get(self.format)
        for example, place in self._batches(runs) if self.batch else self._examples(runs):
            for made in self._finished(example):
                yield last(made) if last else made, place

    def _finished(self, example: Row) -> list[Row]:
        made = [example]
        for step in self.after:
            made = step(made, 0)
        return made

    def _examples(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        for number, run in enumerate(runs):
            for first, made in self._made(self._ready, run):
                unit = first // self.unit
                done = run.given if unit == run.first else 0
                for count, value in enumerate(made[done:], done + 1):
                    yield value, (number, unit, count) if count < len(made) else (number, unit + 1, 0)

    def _batches(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        assert self.batch is not None
        size, dropped = self.batch
        examples = self._examples(runs)
        while some := list(itertools.islice(examples, size)):
            if len(some) == size or not dropped:
                yield columns_of([example for example, _ in some]), some[-1][1]
