"""The folder of an export: each file is named before it appears, and the last file says that all are there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gristmill.core.errors import ConfigError
from gristmill.places.door import place_at
from gristmill.places.folders import (
    UNFINISHED,
    Claim,
    IsOurs,
    claim,
    only_run,
    read_claim,
    refuse_others,
    remove,
)
from gristmill.places.local import is_temporary
from gristmill.store.exchange import link
from gristmill.store.opening import PathLike

# Written last: its presence means that the export is whole.
EXPORTED = "gristmill-export.json"


@dataclass
class Outbox:
    """A folder that is filled with the export `about`, and how each of its files came to be."""

    folder: Path
    about: Mapping[str, object]
    linked: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.about = {"making": "export", **self.about}
        self._claim = Claim(self.folder, self.about)

    @contextlib.contextmanager
    def filling(self, overwrite: bool) -> Iterator[None]:
        """Hold the folder; what an earlier export left goes first, and `overwrite` allows that it is another one."""
        with only_run(self.folder, lambda: _check(self.folder, self.about, overwrite)):
            is_ours = _names(self.folder)
            self._claim = claim(self.folder, self.about, _exported(self.folder))
            place_at(self.folder / EXPORTED).remove()
            remove(self.folder, lambda name: is_ours(name) and name != UNFINISHED)
            yield
            files = sorted((*self.linked, *self.copied))
            text = json.dumps({"gristmill": "export", **self.about, "files": files}, indent=1)
            place_at(self.folder / EXPORTED).write(text + "\n")
            self._claim.release()

    def link(self, source: PathLike, name: str) -> None:
        """Add a file that shares its bytes with `source`."""
        self._claim.add([name])
        link(source, self.folder / name)
        self.linked.append(name)

    @contextlib.contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Add a file with bytes of its own, whole or not at all."""
        self._claim.add([name])
        with place_at(self.folder / name).writing() as file:
            yield file
        self.copied.append(name)


def _check(folder: Path, about: Mapping[str, object], overwrite: bool) -> None:
    refuse_others(folder, _names(folder), "an export")
    begun = read_claim(folder)
    if overwrite or (begun and begun.about == about):
        return
    found = f"an unfinished {begun.about.get('command')}" if begun else "an export already"
    if begun or place_at(folder / EXPORTED).exists():
        raise ConfigError(
            f"{folder} holds {found}: choose another folder, or say overwrite=True.", arguments="overwrite"
        )


def _names(folder: Path) -> IsOurs:
    """What is ours in this folder as it stands."""
    begun = read_claim(folder)
    files = {*(begun.names if begun else ()), *_exported(folder)}

    def is_ours(name: str) -> bool:
        if name == UNFINISHED:
            return begun is not None and begun.about.get("making") == "export"
        if name.endswith("/"):
            return any(file.startswith(name) for file in files)
        return name in files or is_temporary(Path(name).name)

    return is_ours


def _exported(folder: Path) -> list[str]:
    """The files of a finished export, with the one that lists them."""
    place = place_at(folder / EXPORTED)
    if not place.is_file(links=False):
        return []
    try:
        values = json.loads(place.read())
        return [EXPORTED, *(str(name) for name in values["files"])] if values["gristmill"] == "export" else []
    except (ValueError, LookupError, TypeError):
        return []
