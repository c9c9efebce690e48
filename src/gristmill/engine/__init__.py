"""Where the writing half runs.

In: narrow work (a function and the parts to call it on) and wide work (a query over Parquet files).
Out: the function's results in the order of the parts; the query's rows as Parquet files, in order.
Promise: engines differ in speed only; results are equal to the last byte.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from gristmill.engine.base import Engine, Means

# By the names that runs use: what makes each of the means of a run.
ENGINES: Mapping[str, str] = {"local": "local:local_engine", "spark": "spark:spark_engine"}


def make_engine(name: str, means: Means) -> Engine:
    """The engine of this name; its module is imported when a run asks for it."""
    module, _, function = ENGINES[name].partition(":")
    made: Engine = getattr(importlib.import_module(f"{__name__}.{module}"), function)(means)
    return made
