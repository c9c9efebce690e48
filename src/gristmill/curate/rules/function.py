"""Ask a user's own Python function."""

from __future__ import annotations

import functools
import hashlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.places.door import as_address, place_at

Function = Callable[[object], object]


@dataclass(frozen=True)
class UserFunction:
    """Keep what the `function` in the file `path` keeps.

    It is called with each document, a dict of `id`, `source`, `path`, `text` and the carried fields, and returns True
    to keep it, False to drop it, or a text: drop it for this reason. With `batch: true` it is called with an Arrow
    record batch and returns one boolean a row; its answer may not depend on how documents fall into batches. The file
    is read once, when the recipe is, and travels to workers with the rule. Its bytes are part of the recipe's
    fingerprint; what it imports is not.
    """

    name: ClassVar[str] = "function"

    path: str
    function: str = "keep"
    batch: bool = False
    _source: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "_source", place_at(as_address("path", self.path)).read())
        except OSError as error:
            raise ConfigError(f"filter function: {self.path} cannot be read: {error.strerror}.") from error

    def check(self) -> None:
        """Refuse a file that does not run, and one without the function."""
        _load(self.path, self.function, self._source)

    def versions(self) -> dict[str, str]:
        return {"source": hashlib.sha256(self._source).hexdigest()[:32]}

    def judge(self, documents: Documents) -> Verdict:
        function = _load(self.path, self.function, self._source)
        return Asked(function, f"{self.function} of {self.path}", self.path, self.batch).judge(documents)


@dataclass(frozen=True)
class Asked:
    """A function that was called for each document, or each batch, and has said True, False or why one goes.

    `name` is what errors call it, `path` the file that it is in.
    """

    function: Function
    name: str
    path: str
    batch: bool

    def judge(self, documents: Documents) -> Verdict:
        """What it says of documents; an answer of another kind, or an error, names the document."""
        rows = () if self.batch else documents.batch.to_pylist()
        answers = self._of_batch(documents) if self.batch else [self._ask(row) for row in rows]
        reasons = sorted({_reason(answer) for answer in answers if answer is not True})
        codes = [KEEP if answer is True else reasons.index(_reason(answer)) for answer in answers]
        return Verdict(reasons, np.array(codes, np.int16))

    def _ask(self, document: dict[str, object]) -> bool | str:
        answer = self.call(document, f"document {document['id']!r}")
        if isinstance(answer, (bool, np.bool_)):
            return bool(answer)
        if isinstance(answer, str) and answer:
            return answer
        raise ConfigError(
            f"{self.name} returned {answer!r} for document {document['id']!r}: return True, False or a reason as text."
        )

    def _of_batch(self, documents: Documents) -> list[bool | str]:
        answer = np.asarray(self.call(documents.batch, named_batch(documents)))
        if answer.dtype != np.bool_ or answer.shape != (len(documents),):
            raise ConfigError(
                f"{self.name} returned {answer.dtype} of shape {answer.shape} for a batch of "
                f"{len(documents)} documents: return one boolean for each."
            )
        return list(answer.tolist())

    def call(self, argument: object, what: str) -> object:
        """What the function gives for an argument; its error says for which one, and where."""
        try:
            return self.function(argument)
        except Exception as error:
            raise ConfigError(
                f"{self.name} failed on {what} at {self._line(error)}: {type(error).__name__}: "
                f"{error}{_fields_of(argument, error)}."
            ) from error

    def _line(self, error: Exception) -> str:
        """The last line of the user's file that the error passed through."""
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.path]
        return f"line {lines[-1]} of {self.path}" if lines else self.path


def _fields_of(document: object, error: Exception) -> str:
    """What a document has, where somebody asked for something else; others are those that its source names."""
    if isinstance(error, KeyError) and isinstance(document, dict) and error.args and error.args[0] not in document:
        return f" (a document has {', '.join(document)}, and what its source names in fields)"
    return ""


def named_batch(documents: Documents) -> str:
    """A batch as errors name it."""
    first = documents.batch.column("id")[0] if len(documents) else "none"
    return f"the batch that begins with document '{first}'"


def _reason(answer: bool | str) -> str:
    return answer if isinstance(answer, str) else "function"


@functools.lru_cache(maxsize=8)
def _load(path: str, name: str, source: bytes) -> Function:
    """The function, once a process."""
    defined: dict[str, object] = {"__name__": Path(path).stem, "__file__": path}
    try:
        exec(compile(source, path, "exec"), defined)
    except Exception as error:
        raise ConfigError(f"filter function: {path} cannot be run: {type(error).__name__}: {error}.") from error
    function = defined.get(name)
    if not callable(function):
        raise ConfigError(f"filter function: {path} defines no function {name!r}.")
    made: Function = function
    return made
