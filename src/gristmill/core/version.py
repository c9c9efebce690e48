"""Which Gristmill this is."""

from __future__ import annotations


def version() -> str:
    """The installed version; `unknown` for a checkout that was never installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("gristmill")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
