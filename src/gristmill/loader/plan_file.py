"""A plan from its file, over the stores that it names."""

from __future__ import annotations

from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError
from gristmill.order.plan import Plan
from gristmill.order.plan_json import Pin, read_plan
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_address, place_at
from gristmill.store.opening import open_store
from gristmill.store.reader import Store


def load_plan(path: PathLike) -> Plan:
    """A plan from its file, over the stores whose paths it holds, as seen from here or from the plan's own folder."""
    place = as_address("path", path)
    try:
        text = place_at(place).read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The plan {path} cannot be read ({error}).") from error
    sources = read_plan(text)["sources"]
    return Plan.from_json(text, {name: _pinned_store(place, name, pin) for name, pin in sources.items()})


def _pinned_store(plan: Address, name: str, pin: Pin) -> Store:
    """A source of a plan, opened as it was when the plan was made."""
    given = pin["path"] if isinstance(pin["path"], list) else [pin["path"]]
    places = [_pinned_place(plan, name, str(path)) for path in given]
    return open_store(places[0] if len(places) == 1 else places, pin.get("dtype"), pin.get("eos"))


def _pinned_place(plan: Address, name: str, path: str) -> Address:
    for place in (address_of(path), plan.parent / path):
        if place_at(place).exists():
            return place
    raise ConfigError(
        f"The plan {plan} reads its source {name!r} from {path}, which does not exist: bring it back, or "
        "change the path in the plan, which is no part of its fingerprint."
    )
