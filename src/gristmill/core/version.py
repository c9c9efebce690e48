"""Which versions are installed."""

from __future__ import annotations

import functools


def version() -> str:
    """Of Gristmill; `unknown` for a checkout that was never installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("gristmill")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def version_of(library: str) -> str:
    """Of a library, or PackageNotFoundError; read once a process, since it takes up to 2 ms and a run asks 80 times."""
    import importlib.metadata

    return importlib.metadata.version(library)
