"""Changes of values rather than of bytes: for parsers of JSON and YAML, which refuse most changes of bytes at once."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, 1.0, -0.0, 1e308, 2**31, 2**31 - 1, 2**40, 2**53, 2**62, 2**63, 2**64,
    -(2**63), 10**30, 10**400, float("nan"), float("inf"), "", "x", "1/3", "nan", "\0", "\ud800", "é" * 300, "..",
    "/", "~", "-1", "1e5", "uint16", "<f8", ">u2", "O", "V8", "U4", "M8[s]", "byte", "train", [], {}, [[]], [None],
    [[None]], [True], [0, 1], ["x"], {"": None}, {"x": 1}, {"name": "x"}, [{"x": []}],
)  # fmt: skip


def change_values(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A JSON seed with one to three of its values replaced, removed, moved or wrapped."""
    value = json.loads(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _change(rng, value)
    return json.dumps(value).encode()


def _change(rng: random.Random, value: Any) -> Any:
    places = list(_places(value))
    if not places:
        return _odd(rng)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1:
            other, name = rng.choice(places)
            holder[key] = copy.deepcopy(other[name])
        case 2:
            holder[key] = [holder[key]]
        case 3 if isinstance(holder, dict):
            holder[rng.choice(("x", "", f"{key} ", f"_{key}", "1"))] = copy.deepcopy(holder[key])
        case 4 if isinstance(holder[key], str) and holder[key]:
            at = rng.randrange(len(holder[key]))
            holder[key] = holder[key][:at] + rng.choice(("", "0", "-", "z", "é", "\0", "/")) + holder[key][at + 1 :]
        case 5 if isinstance(holder[key], int):
            holder[key] += rng.choice((-1, 1, 2**16, -(2**16), 2**31))
        case _:
            holder[key] = _odd(rng)
    return value


def _odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def _places(value: Any) -> Any:
    """(holder, key) of every value inside."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
