"""Runs of numbers out of a file: from a map of it, or by ranges, near ones by one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.errors import EngineError
from gristmill.places.base import Place, Range

# The most that a request brings, and what is rather read in vain than asked for by one more.
SPAN_BYTES, GAP_BYTES = 8 << 20, 128 << 10
Run = tuple[int, int, int]


def copy_runs(place: Place, runs: Ints, out: npt.NDArray[Any]) -> None:
    """Copy each run (first number of the file, how many, where in `out`) of a file of numbers like those of `out`."""
    if place.maps:
        numbers = place.view().view(out.dtype)
        for start, size, to in runs.tolist():
            out[to : to + size] = numbers[start : start + size]
        return
    width, spans = out.itemsize, list(spans_of(runs, out.itemsize))
    ranges = (Range(place.path, first * width, (stop - first) * width) for first, stop, _ in spans)
    for (first, stop, some), data in zip(spans, place.fetch(ranges), strict=True):
        if len(data) != (stop - first) * width:
            raise EngineError(f"{place.path} is shorter than it was written: remove it, and run again.")
        numbers = np.frombuffer(data, out.dtype)
        for start, size, to in some:
            out[to : to + size] = numbers[start - first : start - first + size]


def spans_of(runs: Ints, width: int) -> Iterator[tuple[int, int, list[Run]]]:
    """Runs by the stretch [first, stop) that a request brings: near ones together, long ones in pieces."""
    longest, gap = max(SPAN_BYTES // width, 1), GAP_BYTES // width
    first, stop, held = 0, 0, list[Run]()
    for piece in sorted(_pieces(runs, longest)):  # runs may overlap, and be there twice
        if held and (piece[0] > stop + gap or piece[0] + piece[1] > first + longest):
            yield first, stop, held
            held = []
        first, stop = (first, max(stop, piece[0] + piece[1])) if held else (piece[0], piece[0] + piece[1])
        held.append(piece)
    if held:
        yield first, stop, held


def _pieces(runs: Ints, longest: int) -> Iterator[Run]:
    """Runs of which none is longer than a request may be."""
    for start, size, to in runs.tolist():
        for at in range(0, size, longest):
            yield start + at, min(longest, size - at), to + at
