"""A plan as text: which keys it has, of which kinds, and the sum that they must have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict, cast

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import check_keys
from gristmill.core.values import Count, Values, Within, check_kinds, check_there, parse_json, shown
from gristmill.store.files import Location

PLAN_VERSION = 1
_NEEDED = ("sources", "seq_len", "batch_size")
_KINDS = {
    "gristmill_plan": object, "sources": Mapping[str, object], "weights": Mapping[str, object] | None, "seq_len": int,
    "batch_size": int, "seed": object, "steps": int | None, "options": Mapping[str, object], "sum": str,
}  # fmt: skip
_PIN_KINDS = {
    "path": str | list[str], "dtype": str | None, "eos": int | None, "shards": Annotated[int, Within(1, 2**31)],
    "tokens": Count, "fingerprint": str,
}  # fmt: skip


class Pin(Location):
    """A source as the plan knows it: where it was, and what it held."""

    shards: int
    tokens: int
    fingerprint: str


class PlanValues(TypedDict):
    """What a plan's JSON holds beside its version and its sum."""

    sources: dict[str, Pin]
    weights: NotRequired[Mapping[str, object] | None]
    seq_len: int
    batch_size: int
    seed: NotRequired[int]
    steps: NotRequired[int | None]
    options: NotRequired[Mapping[str, object]]


def write_plan(values: PlanValues) -> str:
    """The text of a plan, with its version and the sum of its values."""
    versioned = {"gristmill_plan": PLAN_VERSION, **values}
    return json.dumps({**versioned, "sum": _sum(versioned)}, indent=2) + "\n"


def read_plan(text: str) -> PlanValues:
    """A plan's JSON, checked for its version, its keys and what they hold."""
    values: Values = parse_json(text, "The plan")
    if not isinstance(values, dict) or "gristmill_plan" not in values:
        raise ConfigError("This JSON is no Gristmill plan: it has no key 'gristmill_plan'.")
    if values["gristmill_plan"] != PLAN_VERSION:
        version = shown(values["gristmill_plan"])
        raise ConfigError(f"The plan has version {version}; this software reads {PLAN_VERSION}.")
    check_keys(values, set(_KINDS), "the plan")
    check_there(values, _NEEDED, "The plan")
    check_there(values["sources"], (), "The plan's sources")
    for name, pin in values["sources"].items():
        where = f"The plan's source {name!r}"
        check_keys(check_there(pin, (), where), set(_PIN_KINDS), where)
        check_there(pin, ("path", "shards", "tokens", "fingerprint"), where)
        check_kinds(pin, _PIN_KINDS, where)
    check_kinds(values, _KINDS, "The plan")
    if "sum" in values and values["sum"] != _sum(values):
        raise ConfigError(
            "The plan is not as it was written: its values do not have the sum that it names. Bring it back, or make "
            'it again; if you changed it on purpose, take its key "sum" out. (Paths may be changed freely.)'
        )
    return cast(PlanValues, values)


def _sum(values: Values) -> str:
    """What names all values of a plan's JSON but the paths: stores may move, and are known by their own fingerprint."""
    pins = {name: {key: pin[key] for key in pin if key != "path"} for name, pin in values["sources"].items()}
    return fingerprint({**{key: values[key] for key in values if key != "sum"}, "sources": pins})
