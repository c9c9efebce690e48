"""What is made once a machine and kept: compiled code, and tables out of installed libraries.

The name of a kept file says what it was made from, and its head is a sum of the rest: one that was cut off, changed or
made from other sources is not found, and is made again. A folder that can only be read serves too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import stat
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import xxhash

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import hash64

# Numba's own variable: where the user wants code to be kept.
_CHOSEN = "NUMBA_CACHE_DIR"
_SUM = 16
_ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^from (gristmill[\w.]*) import", re.MULTILINE)


def read_kept(source: Path, name: str) -> memoryview | None:
    """What was kept under this name, made by the module `source` as it is now; None where no folder has it whole.

    It is the reader's own: a table of 75 MB is not copied once more for arrays that may be written to.
    """
    found = (_whole(folder / _file_name(source, name)) for folder in _folders(source))
    return next((content for content in found if content is not None), None)


def is_kept(source: Path, name: str) -> bool:
    """Whether there is such a file; whether it is whole is seen when it is read."""
    return any((folder / _file_name(source, name)).is_file() for folder in _folders(source))


def keep(source: Path, name: str, content: bytes) -> None:
    """Keep what the module `source` has made in the first folder that takes it; none is no reason to stop."""
    for folder in _folders(source):
        with contextlib.suppress(OSError):
            _write(folder, _file_name(source, name), xxhash.xxh3_128_digest(content) + content)
            return
    _warn_once()


def keep_in(folder: str) -> None:
    """Keep everything in this folder from now on, in processes that are started too."""
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written ({error.strerror}).", arguments="dir") from error
    os.environ[_CHOSEN] = os.path.abspath(folder)


def home_folder() -> Path | None:
    """The user's own folder for what can be made again; None where there is no home."""
    with contextlib.suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill"
    return None


def module_path(name: str) -> Path:
    """The file of a module of ours."""
    base = _ROOT.joinpath(*name.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@functools.cache
def text_of(path: Path) -> str:
    """A source file."""
    return path.read_text(encoding="utf-8")


def sources(path: Path) -> set[Path]:
    """A module and all of ours that it imports at its top, directly or not."""
    found, waiting = set[Path](), [path]
    while waiting:
        if (source := waiting.pop()) not in found:
            found.add(source)
            waiting += [module_path(name) for name in _IMPORT.findall(text_of(source))]
    return found


@functools.cache
def _stamp(path: Path) -> str:
    """Names the content of a module and of all of ours that it stands on."""
    return f"{hash64(''.join(map(text_of, sorted(sources(path))))):016x}"


def _file_name(source: Path, name: str) -> str:
    return f"{name}.{_stamp(source)}.kept"


def _folders(source: Path) -> Iterator[Path]:
    """Where things are kept, the best first: the user's choice, beside the source, at home, among temporary files.

    A choice that can be written is the only one. Code that they hold is run, so the last is used only where nobody else
    can write to it.
    """
    if chosen := os.environ.get(_CHOSEN):
        yield (folder := Path(chosen))
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return
    yield source.parent / "__pycache__"
    if home := home_folder():
        yield home
    own = Path(tempfile.gettempdir()) / f"gristmill-{os.getuid()}"
    with contextlib.suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            yield own


def _write(folder: Path, name: str, data: bytes) -> None:
    """A file that appears whole, in the place of those of the same name that other sources have made."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{name}.{secrets.token_hex(8)}.tmp"
    try:
        temporary.write_bytes(data)
        temporary.rename(folder / name)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    for old in folder.glob(f"{name.rsplit('.', 2)[0]}.*.kept"):
        if old.name != name:
            old.unlink(missing_ok=True)


def _whole(path: Path) -> memoryview | None:
    """What was written behind a sum; None if there is no such file, or another content."""
    try:
        with path.open("rb", buffering=0) as file:
            data = memoryview(bytearray(os.fstat(file.fileno()).st_size))
            data = data[: file.readinto(data)]
    except OSError:
        return None
    return data[_SUM:] if xxhash.xxh3_128_digest(data[_SUM:]) == data[:_SUM] else None


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "Compiled code cannot be kept: every start takes longer by half a minute. Set NUMBA_CACHE_DIR to a folder that "
        "can be written.",
        stacklevel=2,
    )
