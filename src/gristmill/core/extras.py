"""Libraries that only some need: each is the matter of an extra, and whoever lacks one is told its name.

with extra("torch", "gristmill.adapters.torch"):
    import torch
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gristmill.core.errors import ConfigError
from gristmill.core.watched import is_command


class MissingExtraError(ConfigError, ImportError):
    """A library of an extra is not installed. It is an ImportError too, for those who try an import."""


@contextmanager
def extra(name: str, by: str) -> Iterator[None]:
    """Imports of what the extra `name` brings, for `by`, as an error says it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(name, by, (error.name or "a library").partition(".")[0]) from error


def require(name: str, by: str) -> None:
    """Refuse to go on without the library of an extra, without importing it."""
    if importlib.util.find_spec(name) is None:
        raise _missing(name, by, name)


class _Unseen:
    """Finds nothing, and lets nobody after it find this library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def do_without(name: str) -> None:
    """Let a command that runs no code of others not find a library: Arrow's first array imports pandas (0.4 s)."""
    if is_command() and name not in sys.modules:
        sys.meta_path.insert(0, _Unseen(name))


def _missing(name: str, by: str, library: str) -> MissingExtraError:
    return MissingExtraError(f"{by} needs {library}, which is not installed: pip install 'gristmill[{name}]'.")
