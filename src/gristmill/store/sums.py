"""sums.json: size and xxh3-128 of the files of a store whose bytes are not part of its content.

Parquet's bytes differ between versions of its writer, so the manifest knows the rows of a documents' table and not its
bytes. This file knows the bytes, and those of the files at the root. It carries a sum of itself, as the manifest does,
and is written just before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from gristmill.core.arguments import PathLike
from gristmill.core.errors import StoreError
from gristmill.core.seal import is_sealed, sealed
from gristmill.places.address import Address
from gristmill.places.door import place_at

SUMS = "sums.json"
LISTED = ("tokenizer.json", "inputs.parquet", "dropped.parquet", "duplicates.parquet", "funnel.json")
Listing = dict[str, tuple[int, str]]
_VERSION = 1


def sums_of(root: Address, names: Iterable[str]) -> Listing:
    """Size and checksum of files, by their names relative to the root."""
    return {name: ((place := place_at(root / name)).size(), place.checksum()) for name in names}


def write_sums(root: Address, names: Iterable[str], known: Listing | None = None) -> None:
    """List those files at the root, and those named relative to it, that are there; `known` ones are not read again."""
    found = known or {}
    there = [name for name in (*LISTED, *names) if name in found or place_at(root / name).is_file()]
    files = {name: found.get(name) or sums_of(root, [name])[name] for name in there}
    place_at(root / SUMS).write(sealed({"gristmill_sums": _VERSION, "files": files}))


def read_sums(root: PathLike) -> Listing:
    """What a store lists by path; nothing where an older version made it."""
    path = os.path.join(root, SUMS)
    try:
        data = place_at(path).read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): bring it back.") from error
    if not is_sealed(data):
        raise StoreError(f"{path} is damaged: its content does not have the sum that it names; restore it.")
    return {name: (size, checksum) for name, (size, checksum) in json.loads(data)["files"].items()}


def check_listed(path: PathLike, name: str, listing: Listing) -> None:
    """Refuse a file that is not as it was listed under `name`; one that is not listed may be anything."""
    if name not in listing:
        return
    size, checksum = listing[name]
    try:
        same = (place := place_at(path)).size() == size and place.checksum() == checksum
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): bring it back.") from error
    if not same:
        raise StoreError(f"{path} is damaged: its size or checksum differs from {SUMS}; restore it.")
