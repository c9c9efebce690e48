"""Which sum covers which file of a store: what `verify` says of every byte that it has seen."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from gristmill.core.arguments import PathLike
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.blocks import BLOCKS_SUFFIX
from gristmill.store.format import DOCS_SUFFIX, IDS_SUFFIX, beside
from gristmill.store.manifest import ShardEntry
from gristmill.store.sums import SUMS, Listing

# Made from the rest of the store, and made again at any time.
_DERIVED = ("report.html",)


@dataclass
class Coverage:
    """The files of a store by kind: how many, how many bytes, and by which sum each byte of them is known."""

    root: Address
    kinds: dict[str, dict[str, int | str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, path: PathLike, kind: str, by: str) -> None:
        """A file that has been compared with its sum, whether it passed or not."""
        place = place_at(path)
        if place.exists():
            row = self.kinds.setdefault(kind, {"files": 0, "bytes": 0, "by": by})
            row["files"] = int(row["files"]) + 1
            row["bytes"] = int(row["bytes"]) + place.size()
            self._seen.add(place.real())

    def add_shard(self, path: str, entry: ShardEntry, listing: Listing) -> None:
        """The files of one shard, by the sums that its store has."""
        packed, documents = bool(entry.compressed_bytes), address_of(beside(path, DOCS_SUFFIX))
        tokens = "xxh3-64 of each MiB in .sum"
        in_manifest = "xxh3-128 in the manifest"
        self.add(path, ".bin.zst" if packed else ".bin", in_manifest if entry.compressed_checksum else tokens)
        self.add(beside(path, ".sum"), ".sum", in_manifest)
        self.add(beside(path, ".idx"), ".idx", in_manifest)
        by = in_manifest if entry.ids_checksum else "the ids of its documents"
        self.add(beside(path, IDS_SUFFIX), IDS_SUFFIX, by)
        if entry.blocks_checksum:
            self.add(beside(path, BLOCKS_SUFFIX), BLOCKS_SUFFIX, in_manifest)
        listed = f"{documents.parent.name}/{documents.name}" in listing
        self.add(documents, DOCS_SUFFIX, f"xxh3-128 in {SUMS}" if listed else "xxh3-128 of its rows")

    def unlisted(self, folder: Address) -> list[str]:
        """Files that no sum covers, by their place in the store; hidden ones are locks and work in progress."""
        walked = place_at(folder).walk(links=False) if place_at(folder).is_folder() else ()
        paths = (os.path.join(here, name) for here, names in walked for name in names)
        found = [os.path.relpath(path, self.root) for path in paths if place_at(path).real() not in self._seen]
        return [name for name in found if name not in _DERIVED]
