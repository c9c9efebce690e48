"""A plan as text: which keys it has, of which kinds, and the sum that they must have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import check_keys
from gristmill.core.values import Count, Within, check_kinds, check_there, parse_json, shown

PLAN_VERSION = 1
_NEEDED = ("sources", "seq_len", "batch_size")
_KINDS = {
    "gristmill_plan": Any, "sources": Mapping[str, Any], "weights": Mapping[str, Any] | None, "seq_len": int,
    "batch_size": int, "seed": Any, "steps": int | None, "options": Mapping[str, Any], "sum": str,
}  # fmt: skip
_PIN_KINDS = {
    "path": str | list[str], "dtype": str | None, "eos": int | None, "shards": Annotated[int, Within(1, 2**31)],
    "tokens": Count, "fingerprint": str,
}  # fmt: skip


def write_plan(values: Mapping[str, Any]) -> str:
    """The text of a plan, with its version and the sum of its values."""
    values = {"gristmill_plan": PLAN_VERSION, **values}
    return json.dumps({**values, "sum": _sum(values)}, indent=2) + "\n"


def read_plan(text: str) -> dict[str, Any]:
    """A plan's JSON, checked for its version, its keys and what they hold."""
    values: dict[str, Any] = parse_json(text, "The plan")
    if not isinstance(values, dict) or "gristmill_plan" not in values:
        raise ConfigError("This JSON is no Gristmill plan: it has no key 'gristmill_plan'.")
    if values["gristmill_plan"] != PLAN_VERSION:
        version = shown(values["gristmill_plan"])
        raise ConfigError(f"The plan has version {version}; this software reads {PLAN_VERSION}.")
    check_keys(values, set(_KINDS), "the plan")
    check_there(values, _NEEDED, "The plan")
    check_there(values["sources"], (), "The plan's sources")
    for name, pin in values["sources"].items():
        _check_pin(pin, f"The plan's source {name!r}")
    check_kinds(values, _KINDS, "The plan")
    if "sum" in values and values["sum"] != _sum(values):
        raise ConfigError(
            "The plan is not as it was written: its values do not have the sum that it names. Bring it back, or make "
            'it again; if you changed it on purpose, take its key "sum" out. (Paths may be changed freely.)'
        )
    return values


def _check_pin(pin: Any, where: str) -> None:
    check_there(pin, (), where)
    check_keys(pin, set(_PIN_KINDS), where)
    check_there(pin, ("path", "shards", "tokens", "fingerprint"), where)
    check_kinds(pin, _PIN_KINDS, where)


def _sum(values: Mapping[str, Any]) -> str:
    """What names all values of a plan's JSON but the paths: stores may move, and are known by their own fingerprint."""
    pins = {name: {key: pin[key] for key in pin if key != "path"} for name, pin in values["sources"].items()}
    return fingerprint({**{key: values[key] for key in values if key != "sum"}, "sources": pins})
