"""What names a file or a folder: a `Path` of this machine, or a `Url` of another place, which a `Path` would spoil."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Protocol, Self


class Address(Protocol):
    """What rooms that read may ask of a name, wherever it leads; `pathlib.Path` is one."""

    @property
    def name(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def stem(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def with_name(self, name: str) -> Self: ...
    def with_suffix(self, suffix: str) -> Self: ...
    def __truediv__(self, name: str) -> Self: ...
    def __fspath__(self) -> str: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Url(os.PathLike[str]):
    """`scheme://where/key`, kept as it was spelt but for slashes at its end."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text.rstrip("/"))

    def __str__(self) -> str:
        return self.text

    def __fspath__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Url:
        return Url(name if "://" in name else f"{self.text}/{name}")

    @property
    def name(self) -> str:
        """What follows the last slash."""
        return self.text.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The last dot of the name and what follows it."""
        return posixpath.splitext(self.name)[1]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return posixpath.splitext(self.name)[0]

    @property
    def parent(self) -> Url:
        """The folder; that of what lies directly under the scheme is itself."""
        above = self.text.rpartition("/")[0]
        return self if above.endswith("/") else Url(above)

    def with_name(self, name: str) -> Url:
        """Another file of the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> Url:
        """The same name with another suffix."""
        return self.with_name(self.stem + suffix)
