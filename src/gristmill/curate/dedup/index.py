"""An index of kept documents: what a later run needs to find near duplicates of them.

    index.json                 what it was made with; written last
    part-000000.keys.parquet   (doc, keep_key, key_00, ...): signatures
    part-000000.sets.arrow     shingle sets: 8 bytes a shingle, about 1.3 times the text by words
    part-000000.ids.parquet    (doc, id): the documents' own ids

Documents of an index have negative numbers, (part - 2^30) << 32 | row, and come before all others in any keep order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict
from unicodedata import unidata_version

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.curate.dedup.near import Near
from gristmill.places.address import Address
from gristmill.places.door import as_address, place_at
from gristmill.store.files import sampled_checksum

VERSION = 2
INDEX = "index.json"
INDEX_UNIT = -(1 << 30)
KEYS, SETS, IDS = "keys.parquet", "sets.arrow", "ids.parquet"


@dataclass(frozen=True)
class NearIndex:
    """An index that fits the options: its files, part by part."""

    keys: Sequence[Address] = ()
    ids: Sequence[Address] = ()
    notes: Sequence[str] = ()


def index_fingerprint(folder: Address) -> str:
    """32 hex digits that name an index's content, wherever it lies."""
    described = _described(folder)
    files = [part_path(folder, part, KEYS) for part in range(described["parts"])]
    return fingerprint([described, [sampled_checksum(file) for file in files]])


def part_path(folder: Address, part: int, kind: str) -> Address:
    """Where an index keeps a part's keys, sets or ids."""
    return folder / f"part-{part:06d}.{kind}"


def open_index(options: Near) -> NearIndex:
    """The index that the options name, an empty one if none; ConfigError where it was made with other options."""
    if options.index is None:
        return NearIndex()
    folder = as_address("index", options.index)
    described = _described(folder)
    for name, value in _made_with(options).items():
        if described.get(name) != value:
            raise ConfigError(
                f"The index {folder} was made with {name} {described.get(name)!r}, the recipe says {value!r}: "
                "use the index's options or make a new index."
            )
    if options.verify and not described["sets"]:
        raise ConfigError(f"The index {folder} has no shingle sets: make it with verify: true, or set verify: false.")
    parts = range(described["parts"])
    other = (
        f"The index {folder} was made with Unicode {described['unicode']}, this Python has {unidata_version}: texts "
        "with characters that only one of them knows may not be found."
    )
    notes = [] if described["unicode"] == unidata_version else [other]
    return NearIndex([part_path(folder, i, KEYS) for i in parts], [part_path(folder, i, IDS) for i in parts], notes)


class Description(TypedDict):
    """What `index.json` says beside the options that the index was made with."""

    parts: int
    sets: bool
    unicode: str


def _described(folder: Address) -> Description:
    try:
        found: Description = json.loads(place_at(folder / INDEX).read())
        return found
    except FileNotFoundError:
        raise ConfigError(f"{folder} is no near-duplicate index (no index.json): give one that a run saved.") from None


def _made_with(options: Near) -> dict[str, object]:
    """What keys and sets depend on."""
    bands, rows = options.shape
    return {"version": VERSION, "permutations": options.permutations, "bands": bands, "rows": rows,
            "ngram": options.ngram, "unit": options.unit, "seed": options.seed}  # fmt: skip


def describe(options: Near, parts: int) -> dict[str, object]:
    """What `index.json` says of an index of so many parts."""
    return {**_made_with(options), "parts": parts, "sets": options.verify, "unicode": unidata_version}


def is_part(name: str) -> bool:
    """Whether a name in the folder of an index is one of its files."""
    return name == INDEX or re.fullmatch(r"part-[0-9]{6,}\.(keys\.parquet|sets\.arrow|ids\.parquet)", name) is not None
