"""What callers hand in: the easy spellings made plain, and a wrong kind a sentence that names the argument.

as_names("ids", "a")                    # ("a",)
as_whole("seq_len", None)               # ConfigError: seq_len must be a whole number above 0, not None.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import SupportsIndex, TypeVar

from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.values import fits, shown

T = TypeVar("T")
PathLike = str | os.PathLike[str]


def refuse(name: str, wanted: str, value: object) -> ConfigError:
    """The error for an argument that is not what it must be."""
    return ConfigError(f"{name} must be {wanted}, not {shown(value)}.", arguments=name)


def as_whole(name: str, value: object, least: int | None = 1) -> int:
    """A whole number, NumPy's too, of at least `least`, if there is a least."""
    if type(value) is int and (least is None or value >= least):  # a protocol's `isinstance` takes 20 microseconds
        return value
    try:
        number = operator.index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        bound = {None: "", 0: " of 0 or more", 1: " above 0"}.get(least, f" of {least} or more")
        raise refuse(name, f"a whole number{bound}", value)
    return number


def as_flag(name: str, value: object) -> bool:
    """True or False: a text such as "no" would count as yes."""
    if not isinstance(value, bool):
        raise refuse(name, "True or False", value)
    return value


def as_text(name: str, value: object, wanted: str = "text") -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value or not fits(value, str):
        raise refuse(name, wanted, value)
    return value


def as_choice(name: str, value: object, known: Sequence[str]) -> str:
    """One of a few words; a misspelt one is told the nearest."""
    if not isinstance(value, str):
        raise refuse(name, " or ".join(map(repr, known)), value)
    if value not in known:
        raise ConfigError(f"{name} {value!r} is not known{did_you_mean(value, known)}.", arguments=name)
    return value


def as_names(name: str, value: object, wanted: str = "a name or a list of names") -> tuple[str, ...]:
    """One name, or several."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence | set | frozenset) or not all(fits(each, str) for each in names):
        raise refuse(name, wanted, value)
    return tuple(names)


def as_mapping(name: str, value: Mapping[str, T], wanted: str) -> dict[str, T]:
    """A mapping of names to anything."""
    if not isinstance(value, Mapping) or not all(fits(key, str) for key in value):
        raise refuse(name, wanted, value)
    return dict(value)


def as_kind(name: str, value: object, kind: type[T], wanted: str) -> T:
    """An object of a class of ours."""
    if not isinstance(value, kind):
        raise refuse(name, wanted, value)
    return value


def as_function(name: str, value: T) -> T:
    """Something that can be called."""
    if not callable(value):
        raise refuse(name, "a function", value)
    return value
