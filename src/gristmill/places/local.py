"""Files of this machine: the place that every other is measured by."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError, EngineError
from gristmill.places.base import Place
from gristmill.places.globbing import globbed, is_nothing

if TYPE_CHECKING:
    from gristmill.core.arrays import Bytes

# In the folder of a store while it is made: all work where no other folder is given, and always the markers of what is
# written to the store itself, which must not outlive the files that they vouch for.
WORK = ".work"
# Whether a file may bring the folder that it is to lie in.
_MAKES_FOLDERS: ContextVar[bool] = ContextVar("makes folders", default=True)
# What one call reads whole.
_FEW_BYTES = 1 << 12
# What a file system says where a hard link cannot be: another device, none known here, another's file, too many.
_NO_HARD_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP}


class Local(Place):
    """A path of this machine."""

    maps = True

    def __init__(self, path: str) -> None:
        self.path = path

    def exists(self) -> bool:
        return self._mode() != 0

    def is_file(self, *, links: bool = True) -> bool:
        return stat.S_ISREG(self._mode(links))

    def is_folder(self) -> bool:
        return stat.S_ISDIR(self._mode())

    def _mode(self, links: bool = True) -> int:
        """What is here; 0 for nothing, and for what no file can be called. What may not be looked at is an error."""
        try:
            return os.stat(self.path, follow_symlinks=links).st_mode
        except (OSError, ValueError) as error:
            if is_nothing(error):
                return 0
            raise

    def is_link(self) -> bool:
        return os.path.islink(self.path)

    def real(self) -> str:
        return os.path.realpath(self.path)

    def size(self) -> int:
        return os.stat(self.path).st_size

    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        """5 microseconds each."""
        return (os.stat(path).st_size for path in paths)

    def stamp(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_size, found.st_mtime_ns

    def identity(self) -> tuple[int, ...]:
        """Times can be set (`rsync -t`, `cp -p`); that of a change of the file or its name cannot."""
        found = os.stat(self.path)
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def entries(self) -> list[tuple[str, bool]]:
        """A link to a folder is none."""
        if not self.is_folder():
            return []
        with os.scandir(self.path) as found:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)

    def walk(self, *, links: bool) -> Iterator[tuple[str, list[str]]]:
        seen: set[str] = set()
        for here, folders, names in os.walk(self.path, onerror=_raise, followlinks=links):
            real = os.path.realpath(here)
            folders[:] = sorted(name for name in folders if not name.startswith(".") and real not in seen)
            shown = sorted(name for name in names if not name.startswith(".") and real not in seen)
            yield here, [name for name in shown if not links or Local(os.path.join(here, name))._is_given()]
            seen.add(real)

    def matching(self) -> list[str]:
        if self.is_file():
            return [self.path]
        return [name for name in sorted(globbed(self.path)) if Local(name)._is_given()]

    def _is_given(self) -> bool:
        """Whether a folder or a pattern gives this name: a file, or a link to nothing, which its reader names."""
        return self.is_file() or (self.is_link() and not self.exists())

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        return open(self.path, "rb", buffering=-1 if buffered else 0)

    def read(self, start: int = 0, size: int = -1) -> bytes:
        """A few bytes without a file of Python's, which takes longer to make than they to read."""
        if not 0 <= size <= _FEW_BYTES:
            return super().read(start, size)
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, start)
        finally:
            os.close(fd)

    def map(self) -> tuple[int, int]:
        """14 microseconds: open, fstat, mmap, close."""
        from gristmill.places.memory import map_descriptor

        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return map_descriptor(fd)
        finally:
            os.close(fd)

    def attempt(self, buffering: int = -1) -> LocalAttempt:
        return LocalAttempt(Path(self.path), buffering)

    @contextlib.contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        with disk_errors(self.path), super().writing() as file:
            yield file

    @contextlib.contextmanager
    def filling(self, size: int) -> Iterator[Bytes]:
        """The disk is asked for room first: writing through a map where it has none ends the process by SIGBUS."""
        import numpy as np

        with self.writing() as file:
            os.posix_fallocate(file.fileno(), 0, size)
            data = np.memmap(file.name, np.uint8, "r+")
            yield data
            data.flush()

    def refusal(self) -> str | None:
        return None

    def append(self, data: bytes) -> None:
        """A symbolic link is not followed."""
        with disk_errors(self.path), open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def link(self, source: Place) -> bool:
        """A hard link, or a symlink where that cannot be; a copy of what lies elsewhere."""
        with disk_errors(self.path):
            if not isinstance(source, Local):
                self.copy(source)
                return False
            if not self._hard_link(source):
                os.symlink(source.path, self.path)
            sync_directory(Path(self.path).parent)
        return True

    def copy(self, source: Place) -> None:
        """A hard link, or a copy where that cannot be."""
        with disk_errors(self.path):
            if not self._hard_link(source):
                super().copy(source)

    def _hard_link(self, source: Place) -> bool:
        """Be another name of the file `source`; False where that cannot be."""
        if not isinstance(source, Local):
            return False
        target = Path(self.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a rename onto another link of the same file would do nothing
        try:
            os.link(source.path, target)
        except OSError as error:
            if error.errno not in _NO_HARD_LINK:
                raise
            return False
        return True

    def make_folder(self) -> None:
        os.makedirs(self.path, exist_ok=True)

    def remove(self) -> None:
        Path(self.path).unlink(missing_ok=True)

    def remove_folder(self) -> None:
        with contextlib.suppress(OSError):  # somebody put something there meanwhile
            os.rmdir(self.path)

    def remove_leftover(self) -> None:
        """Unless somebody is writing it."""
        with contextlib.suppress(OSError):
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(self.path)
            finally:
                os.close(file)

    def clear_leftovers(self) -> None:
        path = Path(self.path)
        for name in os.listdir(path.parent) if path.parent.is_dir() else ():
            if is_temporary(name) and name.startswith(f".{path.name}.gristmill-"):
                Local(str(path.with_name(name))).remove_leftover()

    def is_lock(self) -> bool:
        """Ours are empty."""
        return self.is_file(links=False) and self.size() == 0

    def workshop(self) -> str:
        return os.path.join(self.path, WORK)

    @contextlib.contextmanager
    def lock(self, *, wait: bool) -> Iterator[None]:
        """A symbolic link is refused, not followed, and nothing that the file may hold is touched."""
        with disk_errors(self.path):
            if self.is_link():
                raise ConfigError(f"{self.path} is a symbolic link, and a lock must be a file: remove the link.")
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        _locked.add(opened)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            if opened in _locked:  # not in a process that was forked meanwhile
                _locked.remove(opened)
                os.close(opened)


# Files that this process has locked. A forked one would keep the lock for as long as it lives, after us, too.
_locked: set[int] = set()


def _let_go() -> None:
    while _locked:
        os.close(_locked.pop())


os.register_at_fork(after_in_child=_let_go)


def _raise(error: OSError) -> None:
    raise error


class LocalAttempt:
    """Write, fsync, rename, fsync of the directory. The file is locked where the disk can: others see it in use."""

    def __init__(self, path: Path, buffering: int) -> None:
        self._path, self._temporary = path, temporary_path(path)
        with disk_errors(path):
            if _MAKES_FOLDERS.get():
                path.parent.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = open(self._temporary, "xb", buffering=buffering)  # noqa: SIM115 - kept or abandoned
        with contextlib.suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def keep(self) -> None:
        with disk_errors(self._path):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            os.replace(self._temporary, self._path)
            sync_directory(self._path.parent)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # closing writes what a full disk did not take: the first error counts
            self.file.close()
        self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def standing_folders() -> Iterator[None]:
    """Write into folders that are there, and nowhere else: what somebody has removed does not come back."""
    token = _MAKES_FOLDERS.set(False)
    try:
        yield
    finally:
        _MAKES_FOLDERS.reset(token)


def temporary_path(path: Path) -> Path:
    """A name beside `path` for what will become it: ours beyond doubt, and no other host's, run's or attempt's."""
    return path.with_name(f".{path.name}.gristmill-{secrets.token_hex(8)}.tmp")


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that `temporary_path` gave."""
    return re.fullmatch(r"\..+\.gristmill-[0-9a-f]{16}\.tmp", name) is not None


def sync_directory(directory: Path) -> None:
    """Make renames inside `directory` survive a power cut."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def disk_errors(path: PathLike) -> Iterator[None]:
    """Say 'disk full' and 'read-only' in one sentence instead of a traceback."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError(f"The disk is full while writing {path}: free some space and run again.") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EIO, errno.ENOTDIR):
            raise EngineError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
        raise
