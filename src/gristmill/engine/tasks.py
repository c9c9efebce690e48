"""What an executor of a cluster does with a part: call the function, and give its answer or its error as bytes.

An error of ours comes back as it was raised, type and sentence; any other as an EngineError with what was raised and
where. As values they survive, where a cluster would try the task again and print its own traceback around them.
"""

from __future__ import annotations

import os
import pickle
import platform
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gristmill.core.errors import EngineError, GristmillError
from gristmill.core.version import version
from gristmill.places.storage import VARIABLE

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """A function and its part, or some of its parts, pickled together, with what the driver knows: its version, how
    storage is reached, and the folder that relative paths begin in. What parts share is in it once.
    """

    call: bytes
    version: str
    storage: str | None
    folder: str

    @staticmethod
    def of(function: Callable[..., object], part: object, dumps: Callable[[object], bytes]) -> Task:
        """A task of this process."""
        return Task(dumps((function, part)), version(), os.environ.get(VARIABLE), os.getcwd())

    def answer(self, number: int | None = None) -> bytes:
        """The pickled answer, to the part of this number if there are some, or the error: a pair, one of them None."""
        try:
            return pickle.dumps((self._called(number), None))
        except GristmillError as error:
            return pickle.dumps((None, error))
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{platform.node()}, {Path(at.filename).name}, line {at.lineno}"
            return pickle.dumps((None, EngineError(f"A worker failed: {type(error).__name__}: {error} ({place}).")))

    def _called(self, number: int | None) -> object:
        if self.version != version():
            raise EngineError(
                f"{platform.node()} has gristmill {version()}, the driver {self.version}: install the same everywhere."
            )
        if self.storage is not None:
            os.environ[VARIABLE] = self.storage
        with suppress(OSError):  # whoever gave whole paths does not need it
            os.chdir(self.folder)
        function, part = pickle.loads(self.call)  # which the driver has pickled, as Spark itself does with functions
        return function(part if number is None else part[number])


def taken(answer: bytes) -> object:
    """What a task gave; its error is raised here."""
    value, error = pickle.loads(answer)  # which an executor of this very run has pickled
    if error is not None:
        raise error
    return value


def itself(part: T) -> T:
    """What an executor is to have."""
    return part


def received(pickled: bytes) -> Any:
    """What the driver sent; an executor of another version, which is told so, gets nothing."""
    return taken(pickle.loads(pickled).answer())  # which the driver has pickled, as Spark itself does with functions


def answers(pickled: bytes, batches: Iterable[object]) -> Iterator[bytes]:
    """What a function of batches, sent by the driver, gives one after the other; an error of ours is the last.

    Any other error is Spark's to try again.
    """
    try:
        for value in received(pickled)(batches):
            yield pickle.dumps((value, None))
    except GristmillError as error:
        yield pickle.dumps((None, error))
