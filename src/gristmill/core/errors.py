"""Every error a user can meet, by who must act.

GristmillError
├── ConfigError    fix the recipe, the plan or the call
├── SourceError    fix the input: names the file and the row
├── StoreError     the data on disk is damaged or incomplete: names the shard
├── StateError     this checkpoint does not belong to this plan: says what differs
└── EngineError    the machine or the cluster failed: safe to run again
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GristmillError(Exception):
    """The root: `except GristmillError` catches all that Gristmill raises on purpose.

    A message speaks Python: `say overwrite=True`. `arguments` names the arguments in it, so that the command line can
    spell them as its options: `say --overwrite`.
    """

    exit_code = 1

    def __init__(self, message: str = "", *, arguments: str | Iterable[str] = ()) -> None:
        super().__init__(message)
        self.arguments = (arguments,) if isinstance(arguments, str) else tuple(arguments)


class ConfigError(GristmillError):
    """The recipe, the plan or the call asks for something that cannot be."""

    exit_code = 2


class SourceError(GristmillError):
    """An input file cannot be read as what it was said to be: what is wrong, and then what to do about it.

    The advice is apart because it is not repeated to those who have taken it and go on without what is damaged.
    """

    exit_code = 2

    def __init__(self, what: str = "", advice: str = "", *, arguments: str | Iterable[str] = ()) -> None:
        super().__init__(f"{what} {advice}" if advice else what, arguments=arguments)
        self.what = what


class StoreError(GristmillError):
    """A store on disk is damaged, incomplete or of another version."""


class StateError(GristmillError):
    """A checkpoint does not belong to the plan it was loaded into."""

    exit_code = 2


class EngineError(GristmillError):
    """The machine failed (disk full, worker lost): the same command may be run again."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` where something known is close to `word`, else the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(names)})"
