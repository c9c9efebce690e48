"""The folder of a store while it is made: nothing of others is in it, and of an older store nothing stays.

Ours are the names that a store always has, the shards that its manifest or the claim on the folder lists, the indexes
that begin with our magic, and temporary files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.folders import Claim, IsOurs, OwnFolder, remove
from gristmill.places.local import is_temporary
from gristmill.store.format import is_own_shard, shard_files
from gristmill.store.index import is_pack_index
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, load_manifest
from gristmill.store.opening import TOKENIZER
from gristmill.store.sums import SUMS, Listing

STORE_FILES = (MANIFEST, TOKENIZER, "inputs.parquet", "run.json", "report.html", "dropped.parquet",
               "duplicates.parquet", "funnel.json", SUMS)  # fmt: skip
_PACK_INDEX = re.compile(r"(train|val)/(?P<lock>\.)?(joined-[0-9a-f]{16}-)?pack-\d+\.gmi(?(lock)\.lock)")


def own_files(root: PathLike, paths: Iterable[Address]) -> set[Address]:
    """Those of `paths` that are files of the store at `root`: output, even where they lie below an input folder."""
    here, real = Path(place_at(root).real()), functools.cache(lambda folder: Path(place_at(folder).real()))
    splits = {here / split for split in SPLITS}
    return {path for path in paths if (folder := real(path.parent)) in splits
            or (folder == here and path.name in STORE_FILES)}  # fmt: skip


def _nothing(name: str) -> bool:
    return False


@dataclass(frozen=True)
class StoreFolder(OwnFolder):
    """Where a command makes a store; `is_work` knows the names of what it leaves there to go on from, if anything."""

    making = "store"
    last = MANIFEST

    root: Address
    command: str
    is_work: IsOurs = _nothing

    @property
    def about(self) -> dict[str, object]:
        return {"making": self.making, "command": self.command}

    def listed(self) -> set[str] | None:
        """The shards of a finished store, by which its other files are known."""
        if not place_at(self.root / MANIFEST).exists():
            return None
        try:
            return _own_shards(load_manifest(self.root))
        except StoreError as error:
            raise ConfigError(
                f"{self.root} holds a {MANIFEST} that does not say which files are a store's: {error} "
                "Choose another folder, or look at this one and remove it yourself."
            ) from error

    def files_of(self, listed: Iterable[str]) -> set[str]:
        return {name for shard in listed for name in shard_files(shard)}

    def is_own(self, name: str, files: set[str] | None) -> bool:
        path, folder = self.root / name, name.rpartition("/")[0]
        if name.rstrip("/") in SPLITS:
            return name.endswith("/")
        if is_temporary(path.name) and folder in ("", *SPLITS):
            return True
        if _PACK_INDEX.fullmatch(name):
            return files is not None and (place_at(path).is_lock() if name.endswith(".lock") else is_pack_index(path))
        return files is not None and (name in STORE_FILES or name in files or self.is_work(name))

    def resumes(self, name: str, files: set[str]) -> bool:
        return name in files or self.is_work(name)

    @contextmanager
    def filling(self, overwrite: bool) -> Iterator[Making]:
        """Hold the folder for a store that is made in it."""
        with self.held(overwrite) as made:
            for split in SPLITS:
                place_at(self.root / split).make_folder()
            yield Making(self, made)

    def end(self, made: Claim) -> None:
        remove(self.root, self.is_work)
        made.release()


@dataclass(frozen=True)
class Making:
    """A store that is being made."""

    folder: StoreFolder
    claim: Claim
    # Of files that are not content, as far as those who wrote them have summed them.
    sums: Listing = field(default_factory=dict)

    def will_write(self, shards: Iterable[str]) -> None:
        """Say which shards ("train/shard-00000.bin") are going to appear."""
        self.claim.add(shards)

    def finish(self, manifest: Manifest) -> None:
        """Remove shards that no manifest names any more, and declare the store whole."""
        files_of = self.folder.files_of  # a compressed shard has the side files of a plain one
        listed = files_of(self.claim.names) - files_of(_own_shards(manifest))
        root = self.folder.root
        remove(root, lambda name: name in listed or name.rstrip("/") in SPLITS or is_temporary(name.rpartition("/")[2]))
        for split in SPLITS:
            place_at(root / split).make_folder()
        manifest.save(root, self.sums)
        self.folder.end(self.claim)


def _own_shards(manifest: Manifest) -> set[str]:
    """The shards that lie in the store itself, not in those that it joins."""
    listed = ((split, entry.path) for split, entries in manifest.splits.items() for entry in entries)
    return {path for split, path in listed if is_own_shard(split, path)}
