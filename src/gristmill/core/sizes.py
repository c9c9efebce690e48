"""Sizes, speeds and times as people write them: 512MB, 1.5GiB, 50MB/s, 10Gbit/s, 80ms."""

from __future__ import annotations

import re
from decimal import Decimal

from gristmill.core.errors import ConfigError

_UNITS = {"": 1, "b": 1, **{f"{letter}{tail}": 1000**power if tail == "b" else 1024**power
                             for power, letter in enumerate("kmgt", 1) for tail in ("b", "", "ib")}}  # fmt: skip
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
_MEGA = 1_000_000


def parse_size(text: str | int, name: str) -> int:
    """Bytes of the argument `name`: `4GB` is 4 * 1000^3, `4GiB` and `4G` are 4 * 1024^3, a bare number is bytes."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", str(text).lower())
    if not found or found[2] not in _UNITS:
        raise ConfigError(f"{name} is a size such as 512MB, 4GB or 1.5GiB, not {str(text)[:60]!r}.", arguments=name)
    size = int(Decimal(found[1]) * _UNITS[found[2]])
    if size >= 1 << 63:
        raise ConfigError(f"{name} {str(text)[:20]!r} is more than any machine has.", arguments=name)
    return size


def parse_speed(text: str | float, name: str) -> float:
    """Bytes a second of the argument `name`: `50MB/s`, or as networks are sold `10Gbit/s`; a bare number is bytes."""
    said = str(text).lower().replace(" ", "").removesuffix("/s")
    bits = said.endswith("bit")
    try:
        size = parse_size(said.removesuffix("it"), name)  # 10gb, whose bytes are then bits
    except ConfigError as error:
        message = f"{name} is a speed such as 50MB/s or 10Gbit/s, not {str(text)[:60]!r}."
        raise ConfigError(message, arguments=name) from error
    if not size:
        raise ConfigError(f"{name} must be above 0: nothing would ever come.", arguments=name)
    return size / 8 if bits else float(size)


def parse_seconds(text: str | float, name: str) -> float:
    """Seconds of the argument `name`: `80ms`, `1.5s`, `2min`; a bare number is seconds."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", str(text).lower())
    if not found or found[2] not in _SECONDS:
        raise ConfigError(f"{name} is a time such as 80ms, 1.5s or 2min, not {str(text)[:60]!r}.", arguments=name)
    return float(found[1]) * _SECONDS[found[2]]


def speed(size: int, seconds: float) -> str:
    """`4.5 MB/s`"""
    return f"{mega(size / seconds)} MB/s"


def megabytes(size: int) -> str:
    """`12.3 MB`"""
    return f"{mega(size)} MB"


def mega(size: float) -> str:
    """Millions with a decimal; below one, two digits that say something; below a thousandth, no digits."""
    if 0 < size < _MEGA / 1000:
        return "<0.001"
    return f"{size / _MEGA:,.1f}" if size >= 0.95 * _MEGA else f"{size / _MEGA:.2g}"
