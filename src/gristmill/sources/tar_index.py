"""Where the samples of a tar begin: told by one walk over its headers, and kept for as long as the file stays the same.

Only a walk from the start tells where members begin: a tar may hold a tar, so a scan for headers cannot be trusted.
What is kept decides no document and no order, only how soon the first one of a part is found; it may go at any time.
Nothing is kept longer than the file stays the same one, and who reads a part compares where it ends with what is kept.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import xxhash

from gristmill.core.arrays import Ints
from gristmill.core.errors import GristmillError
from gristmill.core.hashing import fingerprint
from gristmill.core.kept import home_folder
from gristmill.core.locks import Lock
from gristmill.places.base import Place
from gristmill.places.door import place_at

# A tar of this machine that is smaller is walked anew in each process, in less than a tenth of a second.
_LEAST_BYTES = 1 << 24
_SUM, _VERSION = 16, 2
_TAR = "tar"
# What kind of index, of which file, and what differs once its bytes do.
_Key = tuple[str, str, tuple[int, ...]]
# What a process remembers, in all.
_MOST_BYTES = 64 << 20
_recent: dict[_Key, Ints] = {}
_memory = Lock()
_lock_of = functools.lru_cache(maxsize=1024)(lambda key: Lock())


def kept_index(place: Place, walk: Callable[[], Iterable[int]], kind: str = _TAR) -> Ints:
    """What `walk` gives for a file, in order: from memory, from the user's cache folder, or made now and kept.

    `kind` tells indexes of other formats apart, which never meet.
    """
    key = kind, place.path, place.identity()
    with _lock_of(key):
        if (found := _recent.get(key)) is None:
            found = _made(_file_of(place, kind), walk)
            _remember(key, found)
    return found


def known_index(place: Place) -> Ints | None:
    """What is remembered or kept of a file, or None: nothing is walked over."""
    key = _TAR, place.path, place.identity()
    with _lock_of(key):
        if (found := _recent.get(key)) is None and (file := _file_of(place, _TAR)):
            found = _read(file)
            if found is not None:
                _remember(key, found)
    return found


def forget_index(place: Place, kind: str = _TAR) -> None:
    """Keep nothing of a file, as far as that can be."""
    with _memory:
        _recent.pop((kind, place.path, place.identity()), None)
    if file := _file_of(place, kind):
        with contextlib.suppress(OSError, GristmillError):
            place_at(file).remove()


def _remember(key: _Key, found: Ints) -> None:
    """The oldest are forgotten where it becomes too much."""
    with _memory:
        _recent[key] = found
        while len(_recent) > 1 and sum(each.nbytes for each in _recent.values()) > _MOST_BYTES:
            del _recent[next(iter(_recent))]


def _made(file: Path | None, walk: Callable[[], Iterable[int]]) -> Ints:
    if file is None:
        return np.fromiter(walk(), np.int64)
    with contextlib.ExitStack() as alone:
        with contextlib.suppress(OSError, GristmillError):  # a folder that cannot be written serves nobody
            alone.enter_context(place_at(file.parent / f"{file.name[0]}.lock").lock(wait=True))
        found = _read(file)
        if found is None:
            found = np.fromiter(walk(), np.int64)
            with contextlib.suppress(OSError, GristmillError):
                data = found.astype("<i8").tobytes()
                place_at(file).write(xxhash.xxh3_128_digest(data) + data)
    return found


def _file_of(place: Place, kind: str) -> Path | None:
    """Where the index of a file is kept, if it is to be."""
    found = place.identity()
    folder = home_folder() if found[0] >= _LEAST_BYTES or not place.maps else None
    return folder / "tars" / f"{fingerprint([_VERSION, kind, place.real(), found])}.starts" if folder else None


def _read(file: Path) -> Ints | None:
    """What was kept; None if there is nothing, or it is not whole."""
    try:
        data = place_at(file).read()
    except OSError:
        return None
    return np.frombuffer(data[_SUM:], "<i8") if xxhash.xxh3_128_digest(data[_SUM:]) == data[:_SUM] else None
