"""Values from outside: JSON that says one thing only, and kinds that values must be of.

A kind is a type hint: `int`, `str | None`, `Sequence[str]`, `Literal["a", "b"]`, or with bounds
`Annotated[int, Within(1, 100)]`. The options of recipes and plans declare theirs as fields of dataclasses, the keys of
manifests and checkpoints as a table.
"""

from __future__ import annotations

import functools
import json
import math
import re
import reprlib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

from gristmill.core.errors import ConfigError, GristmillError, StateError

_PLAIN: Mapping[object, tuple[type, ...]] = {
    float: (int, float), int: (int,), str: (str,), bool: (bool,), type(None): (type(None),)
}  # fmt: skip
_WORDS: Mapping[object, str] = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "nothing",
    Any: "a value", object: "a value",
}  # fmt: skip
# Escapes of lone surrogates, which are no characters: what holds one can be neither hashed nor printed.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = _shown.maxlong = 60


@dataclass(frozen=True)
class Within:
    """The least and the most that a number may be."""

    least: float
    most: float

    def holds(self, value: object) -> bool:
        """Whether it is a number between them."""
        return isinstance(value, int | float) and self.least <= value <= self.most

    @property
    def spelt(self) -> str:
        """In a user's words; a bound that only the width of numbers asks for is not one that a user meets."""
        if self.most < 2**60:
            return f" from {self.least:,} to {self.most:,}"
        return f" of {self.least:,} or more" if self.least > -(2**60) else ""


# What a JSON file holds by its keys: whoever reads it checks their kinds before using them.
Values = dict[str, Any]
# Marks a field whose owner checks its values, in words of its own.
OWN = "checked by its owner"
# Seeds are taken by their lowest 64 bits.
Seed = Annotated[int, Within(-(2**64), 2**64)]
# What is counted through as 64 bits of a signed number, with room to add and multiply.
Count = Annotated[int, Within(0, 2**60)]
Positive = Annotated[int, Within(1, 2**60)]
Share = Annotated[float, Within(0, 1)]
Amount = Annotated[float, Within(0, 2**60)]
Rate = Annotated[float, Within(0.001, 2**60)]
Seconds = Annotated[float, Within(0.01, 86_400)]


def shown(value: object) -> str:
    """A value as a message quotes it: not more than a line of it."""
    return _shown.repr(value)


def parse_json(text: str | bytes, what: str, error: type[GristmillError] = ConfigError) -> Any:
    """The value of a JSON text. A key that is there twice, NaN, and text that is no Unicode are errors too."""
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:  # a decoding error, or a number of 5,000 digits, is a ValueError
        raise error(f"{what} is not JSON that can be used: {problem}.") from problem
    return value


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return values


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def check_kinds(
    values: Mapping[str, object], kinds: Mapping[str, object], where: str, error: type[GristmillError] = ConfigError
) -> None:
    """Refuse a value that is not of the kind that its key asks for; keys that are not there are the caller's affair."""
    for key, kind in kinds.items():
        if key in values and not fits(values[key], kind):
            value, why = values[key], f"it is {spelt(kind)}"
            if isinstance(value, str) and not is_text(value):
                why = "it holds half of a surrogate pair, which no text does"
            raise error(f"{where}: {key} cannot be {shown(value)}: {why}.", arguments=key)


def check_there(
    values: object, keys: Sequence[str], where: str, error: type[GristmillError] = ConfigError
) -> Mapping[str, object]:
    """The mapping that this must be; one that lacks a key is refused too."""
    if not isinstance(values, Mapping):
        raise error(f"{where} must be a mapping, not {type(values).__name__}.")
    for key in keys:
        if key not in values:
            raise error(f"{where} lacks {key!r}.")
    return values


# How many keys a state of another version may lack, and still be one of its kind.
_NEW_KEYS = 1


def as_saved(state: object, kind: type, version: int, whose: str) -> Mapping[str, object]:
    """A state as it was saved, by the keys and kinds of its TypedDict; one of another version is refused, too."""
    kinds = kinds_of(kind)
    missing = [key for key in kinds if not isinstance(state, Mapping) or key not in state]
    made = state.get("version") if isinstance(state, Mapping) and len(missing) <= _NEW_KEYS else None
    if made is not None and fits(made, int) and made != version:
        raise StateError(f"The checkpoint has version {shown(made)}; this software reads {version}.")
    if not isinstance(state, Mapping) or missing:
        raise StateError(f"This is no state of {whose}: it must have {', '.join(kinds)}.")
    check_kinds(state, kinds, "the checkpoint", StateError)
    return state


@functools.cache
def kinds_of(cls: type) -> dict[str, object]:
    """The kinds of a dataclass's fields."""
    return typing.get_type_hints(cls, include_extras=True)


def fits(value: object, kind: object) -> bool:
    """Whether a value is of a kind; kinds that are not plain (classes of ours) are left to those who make them."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        within = [mark for mark in parts[1:] if isinstance(mark, Within)]
        return OWN in parts or (_is_plain(value, parts[0]) and all(mark.holds(value) for mark in within))
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _fits_list(value, parts)
    if kind is str:
        return isinstance(value, str) and is_text(value)
    wide = isinstance(value, int) and not -(2**63) <= value < 2**63  # it needs more than 64 bits
    return kind not in _PLAIN or (_is_plain(value, kind) and not wide)


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold it: lone surrogates can be neither hashed nor printed."""
    return value.isascii() or _LONE.search(value) is None


def _fits_list(value: object, kinds: Sequence[object]) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    if len(kinds) == 1 or kinds[1] is ...:
        return all(fits(item, kinds[0]) for item in value)
    return len(value) == len(kinds) and all(map(fits, value, kinds))


def _is_plain(value: object, kind: object) -> bool:
    """True is no number; NaN and infinity are none either."""
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _PLAIN[kind])


def spelt(kind: object) -> str:
    """A kind in a user's words."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        bounds = [bound.spelt for bound in parts[1:] if isinstance(bound, Within)]
        return "".join([spelt(parts[0]), *bounds])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(spelt, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of names to {spelt(parts[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each entry {spelt(parts[0])}"
    return _WORDS.get(kind, "a mapping")
