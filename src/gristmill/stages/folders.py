"""The folders of a run of prepare, looked at before it begins and held until it has ended; which names in them are its.

Every file of a step lies in the folder of this step, by the number of a unit or of a pass; what it is, its suffix says.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.curate.dedup.index import INDEX, is_part
from gristmill.places.door import place_at
from gristmill.places.folders import UNFINISHED, claim, look_at, only_run, read_claim, refuse_others, remove
from gristmill.places.local import is_temporary
from gristmill.recipe import Recipe
from gristmill.store.folder import Making, StoreFolder

# In the folder of a store while it is made: all work where no other folder is given, and always the markers of what is
# written to the store itself, which must not outlive the files that they vouch for.
WORK = ".work"
# The folder that queries spill to.
SPILL = "spill"
STEPS = (
    "curate", "id", "exact", "lines", "repeated", "trim", "sign", "members", "crowded", "pairs", "candidates",
    "wanted", "sets", "edges", "resolved", "near", "kept", "index", "tokens", "layout", "counts", "split", "plan",
    "shards", "evidence", "account",
)  # fmt: skip
_NAMES = re.compile("|".join((
    rf"({'|'.join(STEPS)})/([0-9a-f]{{8,}}(-[0-9]{{5,}})?\.(json|parquet|dropped\.parquet|bin|arrow))?",
    r"shards/(train|val)-[0-9]{5,}\.json",
    r"evaluations-[0-9a-f]{32}/([a-z_]+\.npy|0{8}\.json)?",
    rf"{SPILL}/(duckdb_temp_[\w.-]+)?",
)))  # fmt: skip
# In a work folder that is kept: it says that the folder is ours.
_MARKER, _MARK = "gristmill-work.json", '{"gristmill": "work"}\n'


def is_work(name: str) -> bool:
    """Whether this name in a work folder is one that a run gives to its files."""
    return _NAMES.fullmatch(name) is not None or is_temporary(Path(name).name)


def is_work_of_store(name: str) -> bool:
    """The same of names in the folder of a store."""
    return name.startswith(f"{WORK}/") and (name == f"{WORK}/" or is_work(name.removeprefix(f"{WORK}/")))


@dataclass(frozen=True)
class WorkFolder:
    """A folder that is kept for work: a new or empty one, or marked as such by an earlier run."""

    folder: Path

    def check(self) -> None:
        path = self.folder / _MARKER
        marked = not path.is_symlink() and path.is_file() and path.read_text() == _MARK
        refuse_others(self.folder, lambda name: marked and (name == _MARKER or is_work(name)), "the work")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it, and mark it."""
        with only_run(self.folder, self.check):
            place_at(self.folder / _MARKER).write(_MARK)
            clear_temporary(self.folder)
            yield


@dataclass(frozen=True)
class IndexFolder:
    """The folder in which a run saves an index: a new or empty one, or what the same run left there when it was cut."""

    folder: Path
    run: str

    @property
    def about(self) -> dict[str, str]:
        return {"making": "index", "command": "prepare --save-index", "run": self.run}

    def check(self) -> None:
        begun = read_claim(self.folder)
        if (self.folder / INDEX).exists() and not (begun and begun.about == self.about):
            raise ConfigError(f"{self.folder} holds an index already: choose a new folder.")
        own = begun is not None and begun.about.get("making") == "index"
        refuse_others(self.folder, lambda name: own and (name == UNFINISHED or is_part(name)), "an index")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it until the run has ended. What another run left there goes: no marker of ours may vouch for it."""
        with only_run(self.folder, self.check):
            begun = read_claim(self.folder)
            goes_on = begun is not None and begun.about == self.about
            made = claim(self.folder, self.about)
            remove(self.folder, lambda name: is_temporary(name) or (not goes_on and is_part(name)))
            yield
            made.release()


def clear_temporary(folder: Path) -> None:
    """Remove what a killed run left half-written, or spilt."""
    remove(folder, lambda name: is_temporary(Path(name).name)
           or (is_work(name) and name.endswith("/")) or (is_work(name) and name.startswith(f"{SPILL}/")))  # fmt: skip


@dataclass(frozen=True)
class RunFolders:
    """The folders that a run of prepare writes to; nothing of others may lie in one of them, nor one in another."""

    store: StoreFolder
    others: Sequence[WorkFolder | IndexFolder]

    @staticmethod
    def of(recipe: Recipe, work: str | None, save_index: str | None) -> RunFolders:
        """Those of a recipe and of the options beside it."""
        root, kept = Path(recipe.out), Path(work) if work else None
        saved = Path(save_index) if save_index else None
        _refuse_nested({"out": root, "work": kept, "save_index": saved})
        places = [os.path.realpath(place) for place in (root, kept or root / WORK)]
        others: list[WorkFolder | IndexFolder] = [WorkFolder(kept)] if kept else []
        if saved:
            others.append(IndexFolder(saved, fingerprint([*places, recipe.content])))
        return RunFolders(StoreFolder(root, "prepare", is_work_of_store), others)

    def look(self, overwrite: bool) -> None:
        """Refuse, before anything is read or written."""
        self.store.look(overwrite)
        for other in self.others:
            look_at(other.folder, other.check)

    @contextmanager
    def held(self, overwrite: bool) -> Iterator[Making]:
        """Hold them all for the run."""
        with ExitStack() as held:
            for other in self.others:
                held.enter_context(other.held())
            making = held.enter_context(self.store.making(overwrite))
            clear_temporary(self.store.root / WORK)
            yield making


def _refuse_nested(folders: Mapping[str, Path | None]) -> None:
    """Each kind of folder has its own names, and none for the others."""
    places = {option: folder.resolve() for option, folder in folders.items() if folder}
    for (option, folder), (other, outer) in itertools.permutations(places.items(), 2):
        if outer in (folder, *folder.parents):
            raise ConfigError(
                f"{option}={folder} lies in {other}={outer}: choose a folder beside it.", arguments=(option, other)
            )
