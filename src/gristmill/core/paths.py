"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
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


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[Any]]:
    """Open a temporary file for bytes that becomes `path` on success: write, fsync, rename, fsync of the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        try:
            with open(temporary, "wb") as file:
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
