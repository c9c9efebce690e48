"""Tables out of Python's Unicode data, made once a machine: asking for a million characters takes 0.1 s a table."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, cast

import numpy as np
import numpy.typing as npt

from gristmill.core.kept import keep, read_kept

Options = ParamSpec("Options")
Table = npt.NDArray[Any]

_DTYPE = len("<u2")


def kept_table(make: Callable[Options, Table]) -> Callable[Options, Table]:
    """`make`, called once a machine for each of its options; what it gives is kept on disk, and cannot be changed."""
    source = Path(make.__code__.co_filename)

    def table(*arguments: Options.args, **named: Options.kwargs) -> Table:
        options = [*map(str, arguments), *(f"{key}={value}" for key, value in named.items())]
        name = "-".join([make.__module__, make.__name__, *options, unicodedata.unidata_version])
        found = read_kept(source, name)
        if found is None:
            made = make(*arguments, **named)
            found = memoryview(made.dtype.str.encode() + made.tobytes())
            keep(source, name, bytes(found))
        return np.frombuffer(found[_DTYPE:].toreadonly(), bytes(found[:_DTYPE]).decode())

    return cast(Callable[Options, Table], functools.wraps(make)(functools.cache(table)))
