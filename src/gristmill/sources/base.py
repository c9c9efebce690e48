"""What every reader shares: the files of a source in a stable order, and documents gathered into Arrow batches."""

from __future__ import annotations

import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

# A batch is whole documents: 8 MiB of text or 8,192 of them, whichever comes first.
BATCH_BYTES, BATCH_DOCUMENTS = 8 << 20, 8_192


@dataclass(frozen=True)
class InputFile:
    """A file of a source; `name` is its path below what the user named, free of the machine's folders."""

    source: str
    path: Path
    name: str


@dataclass(frozen=True)
class RawDocument:
    """One document as it was read."""

    id: str
    path: str
    text: str


@dataclass
class Mishaps:
    """What could not be read. With on_error "raise" the first one ends the run; with "skip" they are counted."""

    on_error: str = "raise"
    by_source: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """Documents, or whole text files, that were passed over."""
        return self.by_source.total()

    def report(self, error: SourceError, source: str) -> None:
        """Raise, or count and keep the first five messages."""
        if self.on_error == "raise":
            raise error
        self.by_source[source] += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))


def expand(source: str, paths: Sequence[str]) -> list[InputFile]:
    """The files behind names, folders (all below, hidden ones left out) and glob patterns, sorted inside each.

    Their names count from the folder that all of `paths` share, so that two files never get one name.
    """
    root = os.path.commonpath([os.path.abspath(_fixed_part(given)) for given in paths])
    found = {given: _below(given) if os.path.isdir(given) else _matching(given) for given in paths}
    for given in paths:
        if not found[given]:
            raise ConfigError(f"{given!r} (source {source!r}) names no file.")
    files = [
        InputFile(source, path, _portable(os.path.relpath(path, root))) for given in paths for path in found[given]
    ]
    name, count = Counter(file.name for file in files).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"Source {source!r} names the file {name} {count} times: each may be read once.")
    return files


def _below(folder: str) -> list[Path]:
    """All files below a folder, through links to folders too; a folder that cannot be listed is an error."""
    files: list[Path] = []
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, onerror=_unlisted, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and real not in seen)
        files += [Path(place, name) for name in names if not name.startswith(".") and real not in seen]
        seen.add(real)
    return sorted(path for path in files if path.is_file())


def _unlisted(error: OSError) -> None:
    raise SourceError(f"The folder {error.filename} cannot be listed ({error.strerror}).") from error


def _matching(pattern: str) -> list[Path]:
    if os.path.isfile(pattern):
        return [Path(pattern)]
    return [found for name in sorted(glob.glob(pattern, recursive=True)) if (found := Path(name)).is_file()]


def _fixed_part(given: str) -> Path:
    """A folder itself, the folder of a file, or that of a pattern up to its first wildcard."""
    path = Path(given)
    if path.is_dir():
        return path
    fixed = list(path.parent.parts)
    if not path.is_file():
        fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), fixed))
    return Path(*fixed)


def _portable(name: str) -> str:
    """A file's name as text that any system can hold: bytes of it that are not UTF-8 are spelt out."""
    return Path(os.fsencode(name).decode("utf-8", "backslashreplace")).as_posix()


def batches(source: str, documents: Iterable[RawDocument]) -> Iterator[pa.RecordBatch]:
    """Documents gathered into record batches of about 8 MiB."""
    held: list[RawDocument] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= BATCH_BYTES or len(held) >= BATCH_DOCUMENTS:
            yield _batch(source, held)
            held, size = [], 0
    if held:
        yield _batch(source, held)


def _batch(source: str, documents: list[RawDocument]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = {
        "id": pa.array([document.id for document in documents], pa.string()),
        "source": pa.array([source] * len(documents), pa.string()),
        "path": pa.array([document.path for document in documents], pa.string()),
        "text": pa.array([document.text for document in documents], pa.large_string()),
    }
    return pa.RecordBatch.from_pydict(columns)
