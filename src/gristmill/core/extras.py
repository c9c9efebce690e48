"""Libraries that only some need: each is the matter of an extra, and whoever lacks one is told its name.

with extra("torch", "gristmill.adapters.torch"):
    import torch
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from gristmill.core.errors import ConfigError


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


def _missing(name: str, by: str, library: str) -> MissingExtraError:
    return MissingExtraError(f"{by} needs {library}, which is not installed: pip install 'gristmill[{name}]'.")
