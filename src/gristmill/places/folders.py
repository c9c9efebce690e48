"""Folders that we fill: nothing of others lies in one when work begins, and only what is ours is ever deleted.

A folder may be new or empty, or a file of ours in it says what it is: the one that a finished thing ends with (a
store's manifest), or `gristmill-unfinished.json`, which is written before all else and removed after it. Its first
line says what is being made, and each line after that names a file before the file appears.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gristmill.core.errors import ConfigError, GristmillError
from gristmill.places.address import Address
from gristmill.places.door import place_at, remove_all
from gristmill.places.local import disk_errors, is_temporary

UNFINISHED = "gristmill-unfinished.json"
LOCK = ".lock"
_SHOWN = 3
_ADVICE = "This folder is not finished: run the command that is named here again."

# Whether a name below a folder, "train/shard-00000.bin" or, for a folder, "train/", is one of ours.
IsOurs = Callable[[str], bool]


@dataclass
class Claim:
    """What is being made in a folder, and the names of its files so far."""

    folder: Address
    about: Mapping[str, object]
    names: set[str] = field(default_factory=set)
    # What was found of an earlier run that its user should know.
    notes: list[str] = field(default_factory=list)

    def add(self, names: Iterable[str]) -> None:
        """Say that these files are ours, before they appear."""
        new = [name for name in names if name not in self.names]
        self.names.update(new)
        place_at(self.folder / UNFINISHED).append("".join(json.dumps(name) + "\n" for name in new).encode())

    def release(self) -> None:
        """What was made here is finished, and says so itself."""
        place_at(self.folder / UNFINISHED).remove()


def claim(folder: Address, about: Mapping[str, object], names: Iterable[str] = ()) -> Claim:
    """Say that `about` is being made in `folder`; what an earlier claim named stays ours."""
    before = read_claim(folder)
    named = {*(before.names if before else ()), *names}
    lines = [json.dumps({"gristmill": "unfinished", **about, "advice": _ADVICE}), *map(json.dumps, sorted(named))]
    place_at(folder / UNFINISHED).write("\n".join(lines) + "\n")
    return Claim(folder, about, named)


def read_claim(folder: Address) -> Claim | None:
    """The claim on a folder, if there is one. A line that was cut off names a file that has not appeared."""
    path = folder / UNFINISHED
    if not place_at(path).is_file(links=False):
        return None
    try:
        head, *lines = place_at(path).read().decode().split("\n")[:-1]
        about, names = json.loads(head), [json.loads(line) for line in lines]
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read ({error}): look at the folder and remove it yourself.") from error
    if not isinstance(about, dict) or about.get("gristmill") != "unfinished":
        return None
    return Claim(folder, {key: about[key] for key in about if key not in ("gristmill", "advice")}, set(names))


def below(folder: Address, is_ours: IsOurs) -> Iterator[tuple[str, bool]]:
    """Every name below `folder` and whether it is ours; links are not followed, and folders of others not entered."""
    for entry, is_folder in place_at(folder).entries():
        if not is_folder:
            yield entry, is_ours(entry)
        elif not is_ours(f"{entry}/"):
            yield f"{entry}/", False
        else:
            inside = below(folder / entry, lambda name, at=entry: is_ours(f"{at}/{name}"))  # type: ignore[misc]
            yield from ((f"{entry}/{name}", ours) for name, ours in inside)
            yield f"{entry}/", True


def refuse_others(folder: Address, is_ours: IsOurs, what: str) -> None:
    """Stop before a folder that holds anything else than ours, its lock, and what was left of writing a file."""
    if place_at(folder).exists() and not place_at(folder).is_folder():
        raise ConfigError(f"{folder} is a file: {what} needs a folder.")

    def is_known(name: str) -> bool:
        return place_at(folder / name).is_lock() if name == LOCK else is_temporary(name) or is_ours(name)

    for name, ours in below(folder, is_known):
        if not ours:
            raise ConfigError(
                f"{folder / name} is no part of {what} that Gristmill made in {folder}, and files of others are never "
                "written over or deleted: choose a new or an empty folder, or move it away."
            )


def remove(folder: Address, is_ours: IsOurs) -> None:
    """Delete what is ours below `folder`, and the folders of ours that are empty then."""
    own = [name for name, ours in below(folder, is_ours) if ours]
    files = [name for name in own if not name.endswith("/")]
    for name in files:
        if is_temporary(name.rpartition("/")[2]):
            place_at(folder / name).remove_leftover()
    remove_all(os.fspath(folder / name) for name in files if not is_temporary(name.rpartition("/")[2]))
    for name in own:
        if name.endswith("/"):
            place_at(folder / name.rstrip("/")).remove_folder()


def _without_uploads(folder: Address, is_ours: IsOurs) -> list[str]:
    """Give up the uploads to files of ours that were never ended: nobody sends to a folder that we hold."""
    root = os.fspath(folder)
    try:
        found = [each for each in place_at(root).unfinished() if is_ours(each.path.removeprefix(f"{root}/"))]
        for upload in found:
            place_at(upload.path).give_up(upload)
    except (OSError, GristmillError) as error:  # not all who may write may do that, and the run does not need it
        why = getattr(error, "strerror", None) or error
        return [f"Whether a run that was cut short left uploads at {root} cannot be seen ({why}): let a rule of the "
                "bucket remove them, as docs/remote.md says."]  # fmt: skip
    names = ", ".join(each.path.removeprefix(f"{root}/") for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    what = "an upload" if len(found) == 1 else f"{len(found):,} uploads"
    return [f"Gave up {what} that a run left unfinished: {names}{more}."] if found else []


def look_at(folder: Address, look: Callable[[], None]) -> None:
    """Let `look` refuse a folder, while nobody else writes to it; nothing is written for that."""
    with disk_errors(folder):
        _check_writable(folder)
        if not place_at(folder / LOCK).is_file():
            look()
            return
    with only_run(folder, look):
        pass


def _check_writable(folder: Address) -> None:
    """Raise what making a folder would, where that can be told without making it: an engine may take a minute first."""
    if not isinstance(folder, Path):
        return
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if there != folder and not there.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


@contextlib.contextmanager
def only_run(folder: Address, look: Callable[[], None]) -> Iterator[None]:
    """Hold a folder, which `look` may refuse before anything is written; a second run is told so and stops."""
    with disk_errors(folder):
        if not place_at(folder / LOCK).is_file():
            look()
        place_at(folder).make_folder()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(place_at(folder / LOCK).lock(wait=False))
        except BlockingIOError as error:
            who = f" ({error.strerror})" if error.filename else ""
            raise ConfigError(
                f"Another run{who} is writing to {folder}: wait for it, or choose another folder."
            ) from error
        look()
        yield


class OwnFolder:
    """A folder in which one thing is made: looked at, held, claimed, cleared, filled and declared whole, in this order.

    Each kind says by which file its thing is finished, which names are its own, and what a run that was cut short may
    go on from.
    """

    making: ClassVar[str]  # "store", as its claim says it
    last: ClassVar[str]  # the file that is written last, by which a finished thing is known
    root: Address

    @property
    def about(self) -> dict[str, object]:
        """What is being made: a run that claims the same goes on with what it left."""
        raise NotImplementedError

    def listed(self) -> set[str] | None:
        """The files that a finished thing names as its own, or None where there is none."""
        return None

    def files_of(self, listed: Iterable[str]) -> set[str]:
        """The files that are meant where these are listed."""
        return set(listed)

    def is_own(self, name: str, files: set[str] | None) -> bool:
        """Whether a name is the thing's, of which these files are listed: None where there is no claim and no thing."""
        raise NotImplementedError

    def resumes(self, name: str, files: set[str]) -> bool:
        """Whether the same run, which was cut short, goes on from this file."""
        return False

    def look(self, overwrite: bool) -> None:
        """Refuse the folder where it is not free; nothing is written for that."""
        look_at(self.root, lambda: self._check(overwrite))

    @contextlib.contextmanager
    def held(self, overwrite: bool) -> Iterator[Claim]:
        """Hold the folder, claimed and cleared of all but what this run can go on from."""
        with only_run(self.root, lambda: self._check(overwrite)):
            is_ours, begun, listed = self._is_ours(), self._begun(), self.listed()
            goes_on = listed is None and begun is not None and begun.about == self.about
            made = claim(self.root, self.about, listed or ())
            files = self.files_of(made.names)
            if listed is not None:
                place_at(self.root / self.last).remove()
            made.notes += _without_uploads(self.root, is_ours) if begun or listed is not None else ()
            remove(self.root, lambda name: is_ours(name) and name != UNFINISHED
                   and not (goes_on and self.resumes(name, files)))  # fmt: skip
            yield made

    def end(self, made: Claim) -> None:
        """The thing is whole: its last file says so."""
        made.release()

    def refuse_made(self, begun: Claim | None, finished: bool, overwrite: bool) -> None:
        """Stop before what was made here, unless that is to be replaced or is what this run has begun."""
        if overwrite or not (finished or (begun and begun.about != self.about)):
            return
        if finished and begun:  # it was killed between its last two steps
            self.end(begun)
        command = begun.about.get("command", "making") if begun else ""
        unfinished = f"holds an unfinished {command}: run that again"
        found = f"already holds {_a(self.making)}: choose another folder" if finished else unfinished
        raise ConfigError(f"{self.root} {found}, or say overwrite=True.", arguments="overwrite")

    def _check(self, overwrite: bool) -> None:
        refuse_others(self.root, self._is_ours(), _a(self.making))
        self.refuse_made(self._begun(), self.listed() is not None, overwrite)

    def _begun(self) -> Claim | None:
        begun = read_claim(self.root)
        return begun if begun and begun.about.get("making") == self.making else None

    def _is_ours(self) -> IsOurs:
        """What is ours in this folder as it stands."""
        begun, listed = self._begun(), self.listed()
        known = begun is not None or listed is not None
        files = self.files_of({*(begun.names if begun else ()), *(listed or ())}) if known else None
        return lambda name: begun is not None if name == UNFINISHED else self.is_own(name, files)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
