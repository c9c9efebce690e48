"""One pass over a data set: its rows in the order of an epoch, by units, through the steps.

A unit is a row, and from the first batched function on so many rows as all batches meet at: each is what its rows make
it, wherever it stands. So parts and shuffles of what comes after a batched function are parts and shuffles of units.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from gristmill.arrow.files import ArrowFile, MappedFile, Piece, Row, between_rows, numbered
from gristmill.arrow.formats import READ, columns_of, conversions
from gristmill.arrow.left import Run
from gristmill.arrow.steps import Failed, Mixed, Part, Step
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError

# Rows turned into Python objects at once: few enough for a quick first row, enough to hide the cost of a slice.
_ROWS_AT_ONCE = 256
# Files that are open at once where units of many are read by turns.
_OPEN = 16
# After an example: the number of a run, the unit in it, and how many examples of that unit have been given.
Place = tuple[int, int, int]
# What is done to the rows of the unit of this number.
_Work = Callable[[list[Row], int], list[Row]]


@dataclass(frozen=True)
class Applied:
    """A step in the format of its data set; `places` are those of rows when it was added, where it asks for them."""

    step: Step
    format: str
    places: tuple[Piece, ...] | None = None

    @property
    def word(self) -> str:
        return self.step.word

    def done(self, read: Pass, epoch: int) -> Pass:
        return read.then(self)


@dataclass(frozen=True)
class Batched:
    """Examples by so many, as columns in a format."""

    size: int
    drop_last: bool
    format: str


@dataclass(frozen=True)
class Pass:
    """Rows in order, and what is done to them: `steps` to those of a unit of `size`, `after` to batches.

    `units` has the numbers of the units in order, once there is a batched function; before it a row is a unit.
    """

    files: tuple[ArrowFile, ...]
    pieces: tuple[Piece, ...]
    size: int = 1
    format: str = "python"
    units: tuple[Piece, ...] | None = None
    steps: tuple[Applied | Part | Mixed, ...] = ()
    batch: Batched | None = None
    after: tuple[Applied, ...] = ()

    @cached_property
    def _rows(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @property
    def _width(self) -> int:
        return 1 if self.units is None else self.size

    @cached_property
    def whole(self) -> tuple[Run, ...]:
        """All units."""
        total = self._rows if self.units is None else sum(piece.length for piece in self.units)
        return (Run(0, total),) if total else ()

    @property
    def regular(self) -> bool:
        """Whether there are as many examples as rows."""
        return all(isinstance(applied, Applied) and applied.step.regular for applied in self.steps)

    # How it is made, from what was asked for in turn.

    def then(self, applied: Applied) -> Pass:
        """With one more step."""
        units = self.units
        if applied.step.batch_size is not None and units is None:
            units = (Piece(0, 0, -(-self._rows // self.size)),)
        if applied.step.with_indices:
            applied = replace(applied, places=numbered(self.pieces))
        return replace(self, steps=(*self.steps, applied), units=units)

    def moved(self, move: Callable[[Sequence[Piece]], tuple[Piece, ...]]) -> Pass:
        """With its units in another order, or some of them alone; where rows lay before moves along."""
        if self.units is not None:
            return replace(self, units=move(self.units))
        steps = tuple(
            replace(each, places=move(each.places)) if isinstance(each, Applied) and each.places is not None else each
            for each in self.steps
        )
        return replace(self, pieces=move(self.pieces), steps=steps)

    def mixed(self, key: int) -> Pass:
        """With the examples of each unit in another order, where it may have several."""
        return self if self.units is None else replace(self, steps=(*self.steps, Mixed(key)))

    def window(self, kind: str, count: int) -> Pass:
        """Its first `count` examples, or all but these; found by reading where their number is no arithmetic."""
        if self.regular:
            return self._cut(kind, count)
        reached, unit, given, examples = self._reached(count)
        if examples == count:
            return self._cut(kind, reached)
        part = Part(kind, unit, given - (examples - count))
        cut = self._cut(kind, reached if kind == "take" else reached - 1)
        return replace(cut, steps=(*cut.steps, part))

    def _cut(self, kind: str, place: int) -> Pass:
        total = self.whole[0].stop if self.whole else 0
        low, high = (0, place) if kind == "take" else (place, total)
        return self.moved(lambda pieces: between_rows(pieces, low, high))

    def _reached(self, count: int) -> tuple[int, int, int, int]:
        """The place after the unit with example number `count`, the unit, its examples, and those up to its end."""
        reached, examples, unit, given = 0, 0, 0, 0
        for run in self.whole if count else ():
            for unit, made in self._made(run):
                given = len(made)
                reached, examples = reached + 1, examples + given
                if examples >= count:
                    return reached, unit, given, examples
        return reached, unit, given, count

    # How it is read.

    @cached_property
    def _conversions(self) -> list[Callable[[Row], Row] | None]:
        """What is done to rows before each step, before they are batched, before each step after, and at the end."""
        kinds = [(each.format, each.step.adds) if isinstance(each, Applied) else ("", False) for each in self.steps]
        kinds += [(self.batch.format, False)] if self.batch else []
        kinds += [(each.format, each.step.adds) for each in self.after]
        return conversions([*kinds, (self.format, False)])

    @property
    def _read_in(self) -> str:
        """The format of whatever sees the rows first."""
        first = next((each.format for each in self.steps if isinstance(each, Applied)), None)
        return first or (self.batch.format if self.batch else self.format)

    def _made(self, run: Run) -> Iterator[tuple[int, list[Row]]]:
        """Each unit of a run, and what the steps make of its rows."""
        opened = functools.lru_cache(_OPEN)(lambda file: MappedFile(self.files[file]))
        width = self._width
        for first, stop in self._stretches(run):
            rows = self._read(first * width, stop * width, opened)
            works = [*map(self._work, self.steps, self._conversions, itertools.repeat(first * width))]
            for unit in range(first, stop):
                made = list(itertools.islice(rows, width))
                try:
                    for work in works:
                        made = work(made, unit)
                except Failed as failed:
                    _fail(failed, self._named(unit))
                yield unit, made

    def _stretches(self, run: Run) -> Iterator[tuple[int, int]]:
        """The units at the places of a run, as ranges."""
        if self.units is None:
            yield run.first, run.stop
            return
        for piece in between_rows(self.units, run.first, run.stop):
            if not piece.shuffles:
                yield piece.start, piece.start + piece.length
                continue
            for start in range(0, piece.length, _ROWS_AT_ONCE):
                for unit in piece.rows(start, min(start + _ROWS_AT_ONCE, piece.length)).tolist():
                    yield unit, unit + 1

    def _work(self, each: Applied | Part | Mixed, converted: Callable[[Row], Row] | None, first: int) -> _Work:
        """What is done to one unit after another, of which the first begins at row `first`."""
        if not isinstance(each, Applied):
            return each
        step, format = each.step, each.format
        places = None if each.places is None else _places(each.places, first)

        def work(rows: list[Row], unit: int) -> list[Row]:
            here = () if places is None else tuple(itertools.islice(places, len(rows)))
            return step([converted(row) for row in rows] if converted else rows, here, format)

        return work

    def _read(self, first: int, stop: int, opened: Callable[[int], MappedFile]) -> Iterator[Row]:
        """The rows at places [first, stop)."""
        read = READ[self._read_in]
        for piece in between_rows(self.pieces, first, stop):
            file = opened(piece.file)
            for start in range(0, piece.length, _ROWS_AT_ONCE):
                for batch in file.take(piece.rows(start, min(start + _ROWS_AT_ONCE, piece.length))):
                    yield from read(batch)

    def given(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        """Each example of runs of units, and the place after it."""
        examples = self._batches(runs) if self.batch else self._examples(runs)
        last = self._conversions[-1]
        if not self.after:
            return ((last(example), place) for example, place in examples) if last else examples
        return self._finished(examples)

    def _finished(self, examples: Iterator[tuple[Row, Place]]) -> Iterator[tuple[Row, Place]]:
        """What is made of batches; `examples` has them."""
        *converted, last = self._conversions[len(self.steps) + 1 :]
        for number, (example, place) in enumerate(examples):
            made = [example]
            for applied, convert in zip(self.after, converted, strict=True):
                try:
                    made = applied.step([convert(each) for each in made] if convert else made, (), applied.format)
                except Failed as failed:
                    _fail(failed, f"batch {number:,} of this pass")
            for each in made:
                yield last(each) if last else each, place

    def _examples(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        for number, run in enumerate(runs):
            if not self.steps:
                opened = functools.lru_cache(1)(lambda file: MappedFile(self.files[file]))
                for place, row in enumerate(self._read(run.first, run.stop, opened), run.first + 1):
                    yield row, (number, place, 0)
                continue
            for place, (_, made) in enumerate(self._made(run), run.first):
                done = run.given if place == run.first else 0
                for count, value in enumerate(made[done:], done + 1):
                    yield value, (number, place, count) if count < len(made) else (number, place + 1, 0)

    def _batches(self, runs: Sequence[Run]) -> Iterator[tuple[Row, Place]]:
        assert self.batch is not None
        examples, convert = self._examples(runs), self._conversions[len(self.steps)]
        while some := list(itertools.islice(examples, self.batch.size)):
            if len(some) == self.batch.size or not self.batch.drop_last:
                rows = [convert(example) if convert else example for example, _ in some]
                yield columns_of(rows, self.batch.format), some[-1][1]

    def _named(self, unit: int) -> str:
        """The rows of a unit as errors name them, with the file in which they lie."""
        first = unit * self._width
        count = min(self._width, self._rows - first)
        (piece,) = between_rows(self.pieces, first, first + 1)
        row, path = int(piece.rows(0, 1)[0]), self.files[piece.file].path
        which = f"row {row:,}" if count == 1 else f"the {count:,} rows from row {row:,} on"
        return f"{which} of {path}"


def _fail(failed: Failed, where: str) -> NoReturn:
    """Say whose function it was and what it was given; its own error is the cause."""
    error = failed.__cause__
    raise ConfigError(f"The function {failed} failed on {where}: {type(error).__name__}: {error}.") from error


def _places(pieces: Sequence[Piece], first: int) -> Iterator[int]:
    """The places of rows when their step was added, from row `first` of now on."""
    for piece in between_rows(pieces, first, sum(piece.length for piece in pieces)):
        for start in range(0, piece.length, _ROWS_AT_ONCE):
            yield from piece.rows(start, min(start + _ROWS_AT_ONCE, piece.length)).tolist()
