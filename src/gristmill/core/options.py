"""Options are frozen dataclasses that survive a trip through JSON, and reject keys they do not know."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from gristmill.core.arguments import as_kind
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.values import check_kinds, check_there, kinds_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def from_mapping(cls: type[Options], given: object, where: str) -> Options:
    """Build the options `cls` from `given`; what is unknown, missing or of another kind is named with `where`."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    sentence = where[:1].upper() + where[1:]
    values = check_there(given, (), sentence)
    check_keys(values, {field.name for field in fields}, where)
    needed = [each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING]
    check_there(values, needed, sentence)
    check_kinds(values, kinds_of(cls), where)
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}.") from error


def check_fields(options: DataclassInstance, where: str) -> None:
    """Refuse values of another kind than their fields say, in options that were made by hand too."""
    check_kinds(vars(options), kinds_of(type(options)), where)


def check_order(options: object, where: str, *pairs: tuple[str, str]) -> None:
    """Refuse a least that is above its most: nothing would stay."""
    for least, most in pairs:
        low, high = getattr(options, least), getattr(options, most)
        if low is not None and high is not None and low > high:
            raise ConfigError(f"{where}: {most} ({high}) is below {least} ({low}): nothing would stay.")


def as_options(cls: type[Options], options: object, name: str = "options") -> Options:
    """The argument `name` as options `cls`: the object itself, a dict of its fields, or None for the defaults."""
    if isinstance(options, Mapping):
        return from_mapping(cls, options, name)
    return as_kind(name, cls() if options is None else options, cls, f"{cls.__name__} or a dict of its fields")


def content(options: DataclassInstance) -> dict[str, object]:
    """The options as a JSON value, for fingerprints and manifests."""
    return dataclasses.asdict(options)


def check_keys(values: Mapping[str, object], known: set[str], where: str) -> None:
    """Refuse any key that is not known: a misspelt option must not be ignored."""
    for key in values:
        if key not in known:
            raise ConfigError(f"Unknown key {key!r} in {where}{did_you_mean(str(key), known)}.")
