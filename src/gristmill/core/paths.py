"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from gristmill.core.errors import EngineError


def sync_directory(directory: Path) -> None:
    """Make renames inside `directory` survive a power cut."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Say 'disk full' and 'read-only' in one sentence instead of a traceback."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError(f"The disk is full while writing {path}: free some space and run again.") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EIO):
            raise EngineError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
        raise


def temporary_path(path: Path) -> Path:
    """A name beside `path` for what will become it: ours beyond doubt, and no other host's, run's or attempt's."""
    return path.with_name(f".{path.name}.gristmill-{secrets.token_hex(8)}.tmp")


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that `temporary_path` gave."""
    return re.fullmatch(r"\..+\.gristmill-[0-9a-f]{16}\.tmp", name) is not None


def open_temporary(temporary: Path, buffering: int = -1) -> IO[bytes]:
    """Make this file, which must be a new one, and lock it where the disk can: so others see that it is in use."""
    file = open(temporary, "xb", buffering=buffering)  # noqa: SIM115 - the caller closes it
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def clear_leftovers(path: Path) -> None:
    """Remove what killed processes left of their attempts to write `path`."""
    names = os.listdir(path.parent) if path.parent.is_dir() else []
    for name in names:
        if is_temporary(name) and name.startswith(f".{path.name}.gristmill-"):
            remove_leftover(path.with_name(name))


def remove_leftover(temporary: Path) -> None:
    """Remove a temporary file, unless somebody is writing it."""
    with contextlib.suppress(OSError):
        file = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()
        finally:
            os.close(file)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[Any]]:
    """Open a temporary file for bytes that becomes `path` on success: write, fsync, rename, fsync of the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    with disk_errors(path):
        try:
            with open_temporary(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace the content of `path` in one step."""
    with atomic_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def relative_to(path: Path, start: Path) -> str:
    """`path` as seen from `start`, with forward slashes, climbing by `..` where it must."""
    return Path(os.path.relpath(path, start)).as_posix()
