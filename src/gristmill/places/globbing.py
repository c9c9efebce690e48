"""The names that a pattern matches on this machine, as Python's `glob` finds them.

That passes over what it cannot look into: here it is an error, since what lies there would be left out in silence.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
from collections.abc import Iterator

_ANY_FOLDERS = "**"
# What a file system says where nothing is, and where nothing can be.
_NOTHING = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP, errno.ENAMETOOLONG}


def is_nothing(error: OSError | ValueError) -> bool:
    """Whether an error says that nothing is there; a ValueError says that no file can be called so."""
    return getattr(error, "errno", errno.ENOENT) in _NOTHING


def globbed(pattern: str, *, folders: bool = False) -> Iterator[str]:
    """Files, folders and links to nothing, in no order, or `folders` alone; `**` stands for any number of folders, none
    of them hidden.
    """
    folder, last = os.path.split(pattern)
    if not glob.has_magic(pattern):
        yield from [pattern] if _is_there(pattern) else []
        return
    for each in globbed(folder, folders=True) if folder != pattern and glob.has_magic(folder) else [folder]:
        yield from _inside(each, last, folders)


def _inside(folder: str, pattern: str, folders: bool) -> Iterator[str]:
    """What the last part of a pattern matches in a folder."""
    if pattern == _ANY_FOLDERS:
        if not folder or _is_there(os.path.join(folder, "")):
            yield os.path.join(folder, "")
        yield from _below(folder, folders)
    elif glob.has_magic(pattern):
        named = _listed(folder, hidden=pattern.startswith("."))
        for name in fnmatch.filter(named, pattern):
            if not folders or _is_folder(named[name]):
                yield os.path.join(folder, name)
    elif _is_there(path := os.path.join(folder, pattern)):
        yield path


def _below(folder: str, folders: bool, above: tuple[tuple[int, int], ...] = ()) -> Iterator[str]:
    """All below a folder that is not hidden, through links but those to a folder above, which would never end."""
    listed = _listed(folder, hidden=False)
    own = (*above, _identity(folder)) if listed else above
    for name, entry in listed.items():
        path, is_folder = os.path.join(folder, name), _is_folder(entry)
        if is_folder and entry.is_symlink() and _identity(path) in own:
            continue
        if is_folder or not folders:
            yield path
        if is_folder:
            yield from _below(path, folders, own)


def _identity(folder: str) -> tuple[int, int]:
    found = os.stat(folder or os.curdir)
    return found.st_dev, found.st_ino


def _listed(folder: str, hidden: bool) -> dict[str, os.DirEntry[str]]:
    """What lies in a folder, hidden or shown; nothing does in what is no folder."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            return {entry.name: entry for entry in entries if hidden or not entry.name.startswith(".")}
    except (OSError, ValueError) as error:
        if is_nothing(error):
            return {}
        raise


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a name is that of a folder, or of a link to one."""
    try:
        return entry.is_dir()
    except OSError as error:
        if is_nothing(error):
            return False
        raise


def _is_there(path: str) -> bool:
    """Whether there is a file, a folder or a link; behind a slash, a folder."""
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:
        if is_nothing(error):
            return False
        raise
    return True
