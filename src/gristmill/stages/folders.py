"""The folders of a run of prepare, looked at before it begins and held until it has ended."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.recipe import Recipe
from gristmill.stages.index import IndexFolder
from gristmill.stages.work_folder import WORK, clear_temporary, is_work_of_store, kept_work, look_at_work
from gristmill.store.folder import Making, StoreFolder


@dataclass(frozen=True)
class RunFolders:
    """The folders that a run of prepare writes to; nothing of others may lie in one of them, nor one in another."""

    store: StoreFolder
    work: Path | None
    index: IndexFolder | None

    @staticmethod
    def of(recipe: Recipe, work: str | None, save_index: str | None) -> RunFolders:
        """Those of a recipe and of the options beside it."""
        root, kept = Path(recipe.out), Path(work) if work else None
        saved = Path(save_index) if save_index else None
        _refuse_nested({"out": root, "work": kept, "save_index": saved})
        places = [os.path.realpath(place) for place in (root, kept or root / WORK)]
        index = IndexFolder(saved, fingerprint([*places, recipe.content])) if saved else None
        return RunFolders(StoreFolder(root, "prepare", is_work_of_store), kept, index)

    def look(self, overwrite: bool) -> None:
        """Refuse, before anything is read or written."""
        self.store.look(overwrite)
        if self.work:
            look_at_work(self.work)
        if self.index:
            self.index.look()

    @contextmanager
    def held(self, overwrite: bool) -> Iterator[Making]:
        """Hold them all for the run."""
        with ExitStack() as held:
            if self.work:
                held.enter_context(kept_work(self.work))
            if self.index:
                held.enter_context(self.index.making())
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
