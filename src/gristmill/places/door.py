"""Where a path becomes a place. Addresses that no place is written for get one sentence that says what to do."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from gristmill.core.arguments import PathLike, refuse
from gristmill.core.errors import ConfigError
from gristmill.places.address import Address, Url
from gristmill.places.base import Place, Range
from gristmill.places.local import Local

# By the scheme of their addresses: places that are not on this machine.
PLACES: dict[str, type[Place]] = {}
_REMOTE = ("s3", "gs", "az", "http", "https")
# A `Path` has made one slash of two; a single letter before the colon would be a drive of Windows.
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.IGNORECASE | re.DOTALL)


def place_at(address: PathLike) -> Place:
    """The place that an address names."""
    path = local_path(os.fspath(address))
    kind = kind_of(path)
    return kind(path if kind is Local else _spelt(path))


def address_of(given: PathLike) -> Address:
    """A name as rooms carry it: joined, cut and taken apart, it stays an address of the same place."""
    path = local_path(os.fspath(given))
    return Path(path) if kind_of(path) is Local else Url(_spelt(path))


def local_path(path: str) -> str:
    """The path that a file:// address means, percent-decoded; what is none stays as it is."""
    found = _FILE.fullmatch(path) if ":" in path else None
    if not found or os.path.lexists(path):
        return path
    if found["host"] not in (None, "", "localhost"):
        raise ConfigError(f"{path} is a file of the machine {found['host']}: give one of this machine, file:///PATH.")
    return unquote(found["path"], errors="surrogateescape")


def _spelt(path: str) -> str:
    """An address with the two slashes of which a `Path` makes one."""
    return _ADDRESS.sub(r"\1://\2", path)


def kind_of(path: str) -> type[Place]:
    """What kind of place an address names: a file of this very name is one of this machine, whatever it looks like."""
    if ":" not in path or os.path.lexists(path):
        return Local
    if found := _ADDRESS.match(path):
        scheme = found[1].lower()
        if scheme in _REMOTE and scheme not in PLACES:
            from gristmill.places.remote import Remote  # nothing of it is needed for files of this machine

            PLACES.update(dict.fromkeys(_REMOTE, Remote))
        if kind := PLACES.get(scheme):
            return kind
        raise ConfigError(_sentence(found[1].lower(), found[2]))
    if path.startswith("pipe:"):
        raise ConfigError(f"{path!r} is a command, and Gristmill reads files: run it, and give the file it writes.")
    return Local


def sizes(paths: Iterable[str]) -> Iterator[int]:
    """The bytes of many files, in order."""
    for kind, some in itertools.groupby(paths, kind_of):
        yield from kind.sizes(some)


def fetch(ranges: Iterable[Range]) -> Iterator[bytes]:
    """Bytes of many files, in order."""
    for kind, some in itertools.groupby(ranges, lambda wanted: kind_of(wanted.path)):
        yield from kind.fetch(some)


def as_address(name: str, value: object, wanted: str = "a path") -> Address:
    """An argument that names a file or a folder to read."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str) or not os.fspath(value):
        raise refuse(name, wanted, value)
    if "\0" in os.fspath(value):
        raise refuse(name, f"{wanted} without a NUL character", value)
    if not _is_name(os.fspath(value)):
        raise refuse(name, f"{wanted} of characters that a name can have", value)
    return address_of(value)


def _is_name(path: str) -> bool:
    """Whether a file can be called so: of surrogates some stand for bytes that are no UTF-8, others for nothing."""
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def as_addresses(name: str, value: object, wanted: str = "a path or a list of paths") -> list[Address]:
    """One name, or several."""
    if isinstance(value, str | os.PathLike):
        return [as_address(name, value, wanted)]
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise refuse(name, wanted, value)
    return [as_address(f"Each of {name}", path) for path in value]


def as_target(name: str, value: object, wanted: str = "a path") -> Address:
    """An argument that names a file or a folder to write."""
    address = as_address(name, value, wanted)
    if refusal := place_at(address).refusal():
        raise ConfigError(f"{address} cannot be written, since {refusal}: give {name} a path, or s3://, gs://, az://.")
    return address


def as_path(name: str, value: object, wanted: str = "a path") -> Path:
    """An argument that names a file or a folder of this machine, since other programs than this one read it."""
    path = as_address(name, value, wanted)
    if not isinstance(path, Path):
        raise ConfigError(f"{path} is an address, and {name} has to be a path of this machine: give one.")
    return path


def absolute(address: Address) -> Address:
    """The same name from wherever it is asked; links in it stay."""
    return Path(os.path.abspath(address)) if isinstance(address, Path) else address


def remove_all(paths: Iterable[str]) -> None:
    """Remove many files."""
    for kind, some in itertools.groupby(paths, kind_of):
        kind.remove_all(list(some))


def _sentence(scheme: str, rest: str) -> str:
    how = " (`hf download`)" if scheme == "hf" else ""
    return (
        f"{scheme}://{rest} is an address of a kind that Gristmill does not read; it reads those that begin with "
        f"{', '.join(_REMOTE)}, file: copy it to a disk of this machine{how} or mount it, and give the local path."
    )
