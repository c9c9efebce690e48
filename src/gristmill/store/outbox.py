"""The folder of an export: each file is named before it appears, and the last file says that all are there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.folders import Claim, OwnFolder
from gristmill.places.local import is_temporary
from gristmill.store.exchange import link
from gristmill.store.opening import PathLike

# Written last: its presence means that the export is whole.
EXPORTED = "gristmill-export.json"


@dataclass(frozen=True)
class ExportFolder(OwnFolder):
    """Where the export `what` is made, anew each time."""

    making = "export"
    last = EXPORTED

    root: Address
    what: Mapping[str, object]

    @property
    def about(self) -> dict[str, object]:
        return {"making": self.making, **self.what}

    def listed(self) -> set[str] | None:
        place = place_at(self.root / EXPORTED)
        if not place.is_file(links=False):
            return None
        try:
            values = json.loads(place.read())
            return {EXPORTED, *map(str, values["files"])} if values["gristmill"] == "export" else None
        except (ValueError, LookupError, TypeError):
            return None

    def is_own(self, name: str, files: set[str] | None) -> bool:
        if name.endswith("/"):
            return any(file.startswith(name) for file in files or ())
        return name in (files or ()) or is_temporary(name.rpartition("/")[2])


@dataclass
class Outbox:
    """A folder that is filled with the export `about`, and how each of its files came to be."""

    folder: Address
    about: Mapping[str, object]
    linked: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    _claim: Claim = field(init=False)

    @contextlib.contextmanager
    def filling(self, overwrite: bool) -> Iterator[None]:
        """Hold the folder; what an earlier export left goes first, and `overwrite` allows that it is another one."""
        folder = ExportFolder(self.folder, self.about)
        with folder.held(overwrite) as self._claim:
            yield
            files = sorted((*self.linked, *self.copied))
            text = json.dumps({"gristmill": "export", **folder.about, "files": files}, indent=1)
            place_at(self.folder / EXPORTED).write(text + "\n")
            folder.end(self._claim)

    @property
    def notes(self) -> list[str]:
        """What was found of an earlier export."""
        return self._claim.notes

    def link(self, source: PathLike, name: str) -> None:
        """Add a file that shares its bytes with `source`, or a copy where that cannot be."""
        self._claim.add([name])
        shared = link(source, self.folder / name)
        (self.linked if shared else self.copied).append(name)

    @contextlib.contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Add a file with bytes of its own, whole or not at all."""
        self._claim.add([name])
        with place_at(self.folder / name).writing() as file:
            yield file
        self.copied.append(name)
