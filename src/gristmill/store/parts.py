"""Where the shards of a manifest may lie: in the store itself, or, where `join` wrote it, in the stores it joins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from gristmill.core.errors import StoreError
from gristmill.core.values import Values
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.format import is_own_shard


def check_places(root: Address, values: Values, read: Callable[[Address], Values]) -> None:
    """Refuse a manifest that names files outside its folder, unless each is a shard that its own store lists alike."""

    @functools.cache
    def listed(part: Address) -> dict[str, Values]:
        return {shard["path"]: shard for split in read(part)["splits"].values() for shard in split["shards"]}

    for split, shard in ((name, shard) for name, rows in values["splits"].items() for shard in rows["shards"]):
        path = shard["path"]
        if is_own_shard(split, path):
            continue
        if "join" not in values["recipe"] or os.path.isabs(path):
            raise StoreError(
                f"The manifest of {root} names {path!r}, which is no shard in this folder: it is damaged, or somebody "
                "changed it; make the store again."
            )
        _check_part(root, split, shard, listed)


def _check_part(root: Address, split: str, shard: Values, listed: Callable[[Address], dict[str, Values]]) -> None:
    """A shard of another store: its manifest must say the same of it."""
    place = address_of(os.path.normpath(os.path.join(place_at(root).real(), shard["path"])))
    part, name = place.parent.parent, f"{place.parent.name}/{place.name}"
    try:
        there = listed(part).get(name) if is_own_shard(split, name) else None
    except StoreError as error:
        raise StoreError(f"{root} joins {part}, whose shards cannot be trusted: {error}") from error
    if there is None or {**there, "path": ""} != {**shard, "path": ""}:
        raise StoreError(
            f"{root} joins {place}, but {part} has no such shard, or another than when it was joined: join them again."
        )
