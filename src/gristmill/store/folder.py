"""The folder of a store while it is made: nothing of others is in it, and of an older store nothing stays.

Ours are the names that a store always has, the shards that its manifest or the claim on the folder lists, the indexes
that begin with our magic, and temporary files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.door import place_at
from gristmill.places.folders import (
    UNFINISHED,
    Claim,
    IsOurs,
    claim,
    is_lock,
    look_at,
    only_run,
    read_claim,
    refuse_others,
    remove,
)
from gristmill.places.local import is_temporary
from gristmill.store.format import is_own_shard, shard_files
from gristmill.store.index import is_pack_index
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, load_manifest
from gristmill.store.opening import TOKENIZER
from gristmill.store.sums import SUMS, Listing

STORE_FILES = (MANIFEST, TOKENIZER, "inputs.parquet", "run.json", "report.html", "dropped.parquet",
               "duplicates.parquet", "funnel.json", SUMS)  # fmt: skip
_PACK_INDEX = re.compile(r"(train|val)/(?P<lock>\.)?(joined-[0-9a-f]{16}-)?pack-\d+\.gmi(?(lock)\.lock)")


def _nothing(name: str) -> bool:
    return False


@dataclass(frozen=True)
class StoreFolder:
    """Where a command makes a store; `is_work` knows the names of what it leaves there to go on from, if anything."""

    root: Path
    command: str
    is_work: IsOurs = _nothing

    @property
    def about(self) -> dict[str, object]:
        return {"making": "store", "command": self.command}

    def look(self, overwrite: bool) -> None:
        """Refuse the folder where it is not free for a store; nothing is written for that."""
        look_at(self.root, lambda: self._check(overwrite))

    @contextmanager
    def making(self, overwrite: bool) -> Iterator[Making]:
        """Hold the folder, cleared of all but what this command can go on from."""
        with only_run(self.root, lambda: self._check(overwrite)):
            yield self._start()

    def _check(self, overwrite: bool) -> None:
        refuse_others(self.root, self._names(), "a store")
        begun, finished = read_claim(self.root), _finished(self.root)
        if finished and not overwrite:
            if begun:  # it was killed between its last two steps
                self._end(begun)
            raise ConfigError(
                f"{self.root} already holds a store: choose another folder, or say overwrite=True.",
                arguments="overwrite",
            )
        if begun and not finished and begun.about != self.about and not overwrite:
            what = begun.about.get("command", "making")
            raise ConfigError(
                f"{self.root} holds an unfinished {what}: run that again, or say overwrite=True.",
                arguments="overwrite",
            )

    def _names(self) -> IsOurs:
        """What is ours in this folder as it stands."""
        begun, finished = read_claim(self.root), _finished(self.root)
        shards = {*(begun.names if begun else ()), *_own_shards(finished)}
        files = {name for shard in shards for name in shard_files(shard)}
        if begun or finished:
            files.update(STORE_FILES)
        known = begun is not None or finished is not None

        def is_ours(name: str) -> bool:
            path = self.root / name
            if name.rstrip("/") in SPLITS:
                return name.endswith("/")
            if name == UNFINISHED:
                return begun is not None
            if _PACK_INDEX.fullmatch(name):
                return known and (is_lock(path) if name.endswith(".lock") else is_pack_index(path))
            own_place = "/" not in name or name.startswith(tuple(f"{split}/" for split in SPLITS))
            return name in files or (own_place and is_temporary(path.name)) or (known and self.is_work(name))

        return is_ours

    def _start(self) -> Making:
        """Claim the folder, then unmake what it holds: the manifest goes first."""
        is_ours, finished, begun = self._names(), _finished(self.root), read_claim(self.root)
        goes_on = finished is None and begun is not None and begun.about == self.about
        made = claim(self.root, self.about, _own_shards(finished))
        place_at(self.root / MANIFEST).remove()
        kept = {name for shard in made.names for name in shard_files(shard)} if goes_on else set()
        remove(self.root, lambda name: is_ours(name) and name != UNFINISHED and name not in kept
               and not (goes_on and self.is_work(name)))  # fmt: skip
        for split in SPLITS:
            place_at(self.root / split).make_folder()
        return Making(self, made)

    def _end(self, made: Claim) -> None:
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
        listed = {name for shard in self.claim.names for name in shard_files(shard)}
        listed -= {name for shard in _own_shards(manifest) for name in shard_files(shard)}
        root = self.folder.root
        remove(root, lambda name: name in listed or name.rstrip("/") in SPLITS or is_temporary(Path(name).name))
        for split in SPLITS:
            place_at(root / split).make_folder()
        manifest.save(root, self.sums)
        self.folder._end(self.claim)


def _finished(root: Path) -> Manifest | None:
    """The manifest of a finished store, if there is one."""
    if not place_at(root / MANIFEST).exists():
        return None
    try:
        return load_manifest(root)
    except StoreError as error:
        raise ConfigError(
            f"{root} holds a {MANIFEST} that does not say which files are a store's: {error} "
            "Choose another folder, or look at this one and remove it yourself."
        ) from error


def _own_shards(manifest: Manifest | None) -> set[str]:
    """The shards that lie in the store itself, not in those that it joins."""
    found = manifest.splits if manifest else {}
    return {entry.path for split, entries in found.items() for entry in entries if is_own_shard(split, entry.path)}
