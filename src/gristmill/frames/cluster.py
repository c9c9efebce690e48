"""What the rows of a DataFrame and the jobs of a run share on a cluster: tasks, errors as values, the engine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from gristmill.core.errors import GristmillError
from gristmill.engine.spark import SparkEngine, spark_errors
from gristmill.engine.tasks import Task, taken

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SparkEngine", "Task", "answers", "itself", "received", "spark_errors", "taken"]

T = TypeVar("T")


def itself(part: T) -> T:
    """What an executor is to have."""
    return part


def received(pickled: bytes) -> Any:
    """What the driver sent; an executor of another version, which is told so, gets nothing."""
    return taken(pickle.loads(pickled).answer())  # which the driver has pickled, as Spark itself does with functions


def answers(pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """What a function of batches, sent by the driver, gives one after the other; an error of ours is the last.

    Any other error is Spark's to try again.
    """
    try:
        for value in received(pickled)(batches):
            yield pickle.dumps((value, None))
    except GristmillError as error:
        yield pickle.dumps((None, error))
