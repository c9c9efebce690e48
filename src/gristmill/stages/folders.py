"""The folders of a run of prepare, looked at before it begins and held until it has ended; which names in them are its.

Every file of a step lies in the folder of this step, by the number of a unit or of a pass; what it is, its suffix says.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.curate.dedup.index import INDEX, is_part
from gristmill.engine.base import BROUGHT
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.places.folders import Claim, OwnFolder, remove
from gristmill.places.local import WORK, is_temporary
from gristmill.recipe import Recipe
from gristmill.store.folder import Making, StoreFolder

# The folder that queries spill to.
SPILL = "spill"
STEPS = (
    "rows", "curate", "id", "exact", "lines", "repeated", "trim", "sign", "members", "crowded", "pairs", "candidates",
    "wanted", "sets", "edges", "gone", "left", "labels", "restless", "dealt", "resolved", "near", "largest", "kept",
    "index", "tokens", "layout", "counts", "split", "plan", "shards", "evidence", "account",
)  # fmt: skip
_NAMES = re.compile("|".join((
    rf"({'|'.join(STEPS)})/([0-9a-f]{{8,}}(-[0-9]{{5,}}(-[0-9a-f]{{16}})?)?\.(json|parquet|dropped\.parquet|bin|arrow))?",
    r"shards/(train|val)-[0-9]{5,}\.json",
    r"evaluations-[0-9a-f]{32}/([a-z_]+\.npy|0{8}\.json)?",
    rf"{SPILL}/(duckdb_temp_[\w.-]+|{BROUGHT}\w+/([\w.-]+\.parquet)?)?",
)))  # fmt: skip


def is_work(name: str) -> bool:
    """Whether this name in a work folder is one that a run gives to its files."""
    return _NAMES.fullmatch(name) is not None or _is_half_made(name)


def _is_half_made(name: str) -> bool:
    """Whether a name is temporary, or lies in a folder that is: an engine may write the rows of a query to one."""
    return any(map(is_temporary, Path(name).parts))


def is_work_of_store(name: str) -> bool:
    """The same of names in the folder of a store."""
    return name.startswith(f"{WORK}/") and (name == f"{WORK}/" or is_work(name.removeprefix(f"{WORK}/")))


@dataclass(frozen=True)
class WorkFolder(OwnFolder):
    """A folder for work alone, never finished, so that its claim stays; what is not to last is cleared in the end."""

    making = "work folder"

    root: Address
    lasting: bool = True

    @property
    def about(self) -> dict[str, object]:
        return {"making": self.making, "command": "prepare --work"}

    def is_own(self, name: str, files: set[str] | None) -> bool:
        return files is not None and is_work(name)

    def resumes(self, name: str, files: set[str]) -> bool:
        return True

    @contextmanager
    def held(self, overwrite: bool) -> Iterator[Claim]:
        with super().held(overwrite) as made:
            yield made
            if not self.lasting:
                remove(self.root, is_work)
                self.end(made)


@dataclass(frozen=True)
class IndexFolder(OwnFolder):
    """The folder in which a run saves an index: a new or empty one, or what a run that was cut short left there."""

    making = "index"
    last = INDEX

    root: Address
    run: str

    @property
    def about(self) -> dict[str, object]:
        return {"making": self.making, "command": "prepare --save-index", "run": self.run}

    def listed(self) -> set[str] | None:
        """It is finished when its run has ended, not before: until then its claim stands beside it."""
        return {INDEX} if place_at(self.root / INDEX).exists() and not self._begun() else None

    def is_own(self, name: str, files: set[str] | None) -> bool:
        return is_temporary(name) or (files is not None and is_part(name))

    def resumes(self, name: str, files: set[str]) -> bool:
        """All but what another run left there: no marker of ours may vouch for that."""
        return is_part(name)

    def refuse_made(self, begun: Claim | None, finished: bool, overwrite: bool) -> None:
        if finished:
            raise ConfigError(f"{self.root} holds an index already: choose a new folder.")

    @contextmanager
    def held(self, overwrite: bool) -> Iterator[Claim]:
        """Hold it until the run has ended."""
        with super().held(overwrite) as made:
            yield made
            self.end(made)


@dataclass(frozen=True)
class RunFolders:
    """The folders that a run of prepare writes to; nothing of others may lie in one of them, nor one in another.

    `work` may lie in object storage. `scratch`, for what queries spill, is a folder of this machine.
    """

    store: StoreFolder
    others: Sequence[OwnFolder]
    work: Address
    scratch: Path

    @staticmethod
    def of(recipe: Recipe, work: str | None, save_index: str | None, *, shared: bool = False) -> RunFolders:
        """Those of a recipe and of the options beside it; `shared` where other machines work in them."""
        root = address_of(recipe.out)
        place = address_of(work or (root / WORK if shared else place_at(root).workshop()))
        apart, saved = place if work or place != root / WORK else None, address_of(save_index) if save_index else None
        _refuse_nested({"out": root, "work": apart, "save_index": saved})
        here = place if isinstance(place, Path) else Path(place_at(place).workshop())
        others: list[OwnFolder] = [WorkFolder(apart, lasting=work is not None)] if apart else []
        if here != place:
            others.append(WorkFolder(here, lasting=False))
        if saved:
            places = [place_at(folder).real() for folder in (root, place)]
            others.append(IndexFolder(saved, fingerprint([*places, recipe.content])))
        return RunFolders(StoreFolder(root, "prepare", is_work_of_store), others, place, here / SPILL)

    def look(self, overwrite: bool) -> None:
        """Refuse, before anything is read or written."""
        for folder in (self.store, *self.others):
            folder.look(overwrite)

    @contextmanager
    def held(self, overwrite: bool) -> Iterator[Making]:
        """Hold them all for the run; what a killed one left half-written, or spilt, goes."""
        with ExitStack() as held:
            for other in self.others:
                held.enter_context(other.held(overwrite))
            making = held.enter_context(self.store.filling(overwrite))
            for folder in {self.work, self.scratch.parent}:
                remove(folder, lambda name: _is_half_made(name)
                       or (is_work(name) and (name.endswith("/") or name.startswith(f"{SPILL}/"))))  # fmt: skip
            yield making


def _refuse_nested(folders: Mapping[str, Address | None]) -> None:
    """Each kind of folder has its own names, and none for the others."""
    places = {option: place_at(folder).real() for option, folder in folders.items() if folder}
    for (option, folder), (other, outer) in itertools.permutations(places.items(), 2):
        if f"{folder}/".startswith(f"{outer.rstrip('/')}/"):
            raise ConfigError(
                f"{option}={folder} lies in {other}={outer}: choose a folder beside it.", arguments=(option, other)
            )
