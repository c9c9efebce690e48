"""What every reader shares: the files of a source in a stable order, and documents gathered into Arrow batches."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
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
    skipped: int = 0
    examples: list[str] = field(default_factory=list)

    def report(self, error: SourceError) -> None:
        """Raise, or count and keep the first five messages."""
        if self.on_error == "raise":
            raise error
        self.skipped += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))


def expand(source: str, paths: Iterable[str]) -> list[InputFile]:
    """The files behind names, folders (all below, hidden ones left out) and glob patterns, sorted inside each."""
    files: list[InputFile] = []
    for given in paths:
        found = _below(Path(given)) if Path(given).is_dir() else _matching(given)
        if not found:
            raise ConfigError(f"{given!r} (source {source!r}) names no file.")
        root = Path(given) if Path(given).is_dir() else _fixed_part(given)
        files += [InputFile(source, path, path.relative_to(root).as_posix()) for path in found]
    return files


def _below(folder: Path) -> list[Path]:
    hidden = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in hidden if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_file():
        return [path]
    return [found for name in sorted(glob.glob(pattern, recursive=True)) if (found := Path(name)).is_file()]


def _fixed_part(pattern: str) -> Path:
    """The folder of a file, or of a pattern up to its first wildcard."""
    parts = Path(pattern).parent.parts if Path(pattern).is_file() else Path(pattern).parts[:-1]
    fixed: list[str] = []
    for part in parts:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed)


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
