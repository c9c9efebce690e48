"""Options are frozen dataclasses that survive a trip through JSON, and reject keys they do not know."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from gristmill.core.errors import ConfigError, did_you_mean

T = TypeVar("T")


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Build the options `cls` from `values`, naming `where` they came from if a key is unknown or missing."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be a mapping, not {type(values).__name__}.")
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    check_keys(values, known, where)
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}.") from error


def content(options: Any) -> dict[str, Any]:
    """The options as a JSON value, for fingerprints and manifests."""
    made: dict[str, Any] = dataclasses.asdict(options)
    return made


def check_keys(values: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuse any key that is not known: a misspelt option must not be ignored."""
    for key in values:
        if key not in known:
            raise ConfigError(f"Unknown key {key!r} in {where}{did_you_mean(str(key), known)}.")
