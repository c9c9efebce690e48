"""A place as a bucket is one, of files of this machine: nobody may map them, and each read is counted."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, ClassVar

from gristmill.places.address import Url
from gristmill.places.base import Place
from gristmill.sources.base import InputFile

SCHEME = "far://"


class _Asked(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        Far.reads.append((self.tell() - len(data), len(data)))
        return data


class Far(Place):
    """Files of this machine that nobody may map; it keeps what is read of them, first byte and bytes."""

    reads: ClassVar[list[tuple[int, int]]] = []

    def __init__(self, path: str) -> None:
        self.path, self._here = path, Path("/", path.removeprefix(SCHEME))

    def real(self) -> str:
        return self.path

    def is_file(self, *, links: bool = True) -> bool:
        return self._here.is_file()

    def size(self) -> int:
        return self._here.stat().st_size

    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        return (cls(path).size() for path in paths)

    def stamp(self) -> tuple[int, int]:
        return self.size(), 0

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        return _Asked(self._here)  # type: ignore[return-value]


def there(path: Path) -> InputFile:
    return InputFile("web", Url(f"{SCHEME}{str(path)[1:]}"), path.name, path.stat().st_size)
