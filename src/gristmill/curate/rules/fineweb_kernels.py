"""The figures of FineWeb's rules, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.hashes import hash_bytes
from gristmill.core.kernels.lines import NEWLINE, line_end
from gristmill.core.kernels.memory import count, largest
from gristmill.core.kernels.slots import begin_use, first_place, new_sightings
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import character_start, count_characters, decode
from gristmill.curate.characters import TERMINAL
from gristmill.curate.white_space import skip_spaces

_FIGURES = types.float64[:, ::1]
# The rows of the figures; what ends as LISTS is the number of line feeds here.
_LINES, _PUNCT, _SHORT, _DUP, _LISTS = range(5)


@entry(types.void(BYTES, INTS, BYTES, types.int64, _FIGURES))
def measure_lines(data: Any, offsets: Any, characters: Any, short_chars: int, figures: Any) -> None:
    """The figures of each document's lines that are not blank."""
    for document in range(offsets.size - 1):
        figures[_LISTS, document] = count(data[offsets[document] : offsets[document + 1]], NEWLINE)
    seen = new_sightings(np.int64(largest(figures[_LISTS])) + 1)
    for document in range(offsets.size - 1):
        start, end = offsets[document], offsets[document + 1]
        base, shift = begin_use(seen, np.int64(figures[_LISTS, document]) + 1)
        lines = terminal = short = repeated = total = 0
        while start < end:
            after = line_end(data, start, end)
            chars = count_characters(data, start, after)
            total += chars
            if skip_spaces(data, start, after, characters) < after:
                terminal += (characters[decode(data, character_start(data, after - 1))[0]] & TERMINAL) != 0
                short += chars <= short_chars
                if first_place(seen, base, shift, hash_bytes(data, start, after), lines) < lines:
                    repeated += chars
                lines += 1
            start = after + 1
        figures[_LINES, document] = lines
        figures[_PUNCT, document], figures[_SHORT, document] = terminal / max(lines, 1), short / max(lines, 1)
        figures[_DUP, document] = repeated / max(total, 1)
