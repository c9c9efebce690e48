"""What a user without rights meets: tests run as root, whom nothing is forbidden to."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

_NOBODY = 65_534

AsNobody = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def as_nobody() -> AsNobody:
    """A block in which root is nobody; others, whom something may be forbidden to, stay who they are."""

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        own = os.geteuid()
        if own == 0:
            os.seteuid(_NOBODY)
        try:
            yield
        finally:
            os.seteuid(own)

    return block


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can look into, which is gone after the test whatever is forbidden in it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        for path in [path for path in folder.rglob("*") if path.is_dir()]:
            path.chmod(0o700)
        shutil.rmtree(folder)
