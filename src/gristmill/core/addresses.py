"""Addresses of remote storage, where a path is taken: until Gristmill reads them, one sentence says what to do."""

from __future__ import annotations

import os
import re

from gristmill.core.errors import ConfigError

# A `Path` has made one slash of two; a single letter before the colon would be a drive of Windows.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.IGNORECASE | re.DOTALL)
_FETCHING = {
    "s3": "`aws s3 sync {address} DIR`",
    "gs": "`gcloud storage cp -r {address} DIR`",
    "hf": "`hf download`",
    "http": "`curl -O {address}`",
    "https": "`curl -O {address}`",
}


def refuse_address(*given: str | os.PathLike[str] | None) -> None:
    """Refuse what is no local path, unless a file has this very name."""
    for name in (os.fspath(name) for name in given if name is not None):
        found = _ADDRESS.match(name)
        if found and not os.path.lexists(name):
            raise ConfigError(_sentence(found[1].lower(), found[2]))
        if name.startswith("pipe:") and not os.path.lexists(name):
            raise ConfigError(f"{name!r} is a command, and Gristmill reads files: run it, and give the file it writes.")


def _sentence(scheme: str, rest: str) -> str:
    if scheme == "file":
        return f"file:///{rest} is an address: give the path alone, /{rest}."
    address = f"{scheme}://{rest}"
    how = _FETCHING.get(scheme, "").format(address=address)
    return (
        f"{address} is an address, and Gristmill reads and writes local files only, so far: copy it to a disk of this "
        f"machine{f' ({how})' if how else ''} or mount it, and give the local path."
    )
