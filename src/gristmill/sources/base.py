"""What every reader shares: how a source is read, its files in a stable order, and what could not be read."""

from __future__ import annotations

import codecs
import glob
import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, SourceError, did_you_mean
from gristmill.places.address import Address
from gristmill.places.base import Place
from gristmill.places.door import address_of, place_at
from gristmill.places.patterns import expand_names, refuse_missing

# A longer document is an error: what a worker holds stays bounded whatever the input.
MAX_DOCUMENT_BYTES = 256 << 20
# Mishaps that wait to be written down.
_WAITING = 1_024
# Files that a note names; the account has them all.
SHOWN_FILES = 20

FORMATS = ("text", "jsonl", "parquet", "arrow", "webdataset")
DOCUMENTS = ("file", "line", "paragraph")
# The columns that a batch has for every document: an input's own field of such a name cannot be carried beside them.
COLUMNS = ("id", "source", "path", "row", "text", "doc", "bytes", "content_hash", "edits", "id_hash",
           "hash_hi", "hash_lo", "keep_key", "offset", "length", "unit", "start", "val", "shuffle")  # fmt: skip


# Their presence marks a folder that `save_to_disk` wrote, or a cache: `cache-*.arrow` there are results of `map`.
_HUGGING_FACE = {"dataset_info.json", "state.json", "dataset_dict.json"}


@dataclass(frozen=True)
class Format:
    """How the files of a source are read.

    `text`, `id` and `fields` name keys or columns; `fields` are carried as strings. `documents` says what a document
    is in plain text. `format` None goes by the suffix. `encoding` is that of plain text and JSONL.
    """

    text: str = "text"
    id: str = "id"
    fields: Sequence[str] = ()
    documents: str = "file"
    format: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise ConfigError(f"No format is called {self.format!r}{did_you_mean(self.format, FORMATS)}.")
        if self.documents not in DOCUMENTS:
            raise ConfigError(f"documents is 'file', 'line' or 'paragraph', not {self.documents!r}.")
        object.__setattr__(self, "encoding", _codec(self.encoding))
        object.__setattr__(self, "fields", _carried(self.fields))
        if not (self.text and self.id and all(self.fields)):
            raise ConfigError("The names of a source's text, id and carried fields cannot be empty.")
        if len({self.text, self.id, *self.fields}) < 2 + len(self.fields):
            raise ConfigError(f"Text ({self.text!r}), id ({self.id!r}) and carried fields must be different fields.")

    @property
    def is_utf8(self) -> bool:
        """Whether bytes are texts as they stand."""
        return self.encoding == "utf-8"


def _codec(encoding: str) -> str:
    """A text encoding's one name, whatever it was called."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            f"encoding {encoding!r} is not one that Python knows for text: utf-8, latin-1 and cp1252 are some.",
            arguments="encoding",
        ) from error


def _carried(fields: Sequence[str]) -> tuple[str, ...]:
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if taken := [name for name in names if name in COLUMNS]:
        raise ConfigError(f"The field {taken[0]!r} cannot be carried: each document has a column of that name already.")
    return names


@dataclass(frozen=True)
class InputFile:
    """A file of a source; `name` is its path below what the user named, free of the machine's folders.

    `size`, where it is known, is the bytes that the file had when it was cut: with others it may not be read.
    """

    source: str
    path: Address
    name: str
    size: int | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return InputFile, (self.source, self.path, self.name, self.size)

    @cached_property
    def spelt(self) -> str:
        """The path as text: Python's paths take four calls for it, each time."""
        return os.fspath(self.path)

    @cached_property
    def place(self) -> Place:
        """Where its bytes are; of a file whose size is known they are those of one version."""
        place = place_at(self.spelt)
        return place if self.size is None else place.pinned()

    def check(self, size: int) -> None:
        """Refuse a file that has other bytes than when it was cut: they would be other documents."""
        if self.size not in (None, size):
            raise SourceError(
                f"{self.path} had {self.size:,} bytes when the stream began and now has {size:,}.",
                "Files of a stream may not change while it is read: start it anew, or name those alone that are whole.",
            )

    def at(self, mark: str, place: object) -> str:
        """The id of a document by its place: `web/part.jsonl@1842`."""
        return f"{self.source}/{self.name}{mark}{place}"


@dataclass(frozen=True)
class Part:
    """A file, or the stretch of it that one unit reads; `size` is its bytes on disk.

    `start` and `stop` count bytes of (unpacked) text in JSONL and plain text, row groups in Parquet, record batches
    in Arrow files; `stop` None is the file's end.
    """

    file: InputFile
    start: int = 0
    stop: int | None = None
    size: int = 0


def parts_from(file: InputFile, starts: Sequence[int], size: int) -> list[Part]:
    """A file of `size` bytes in parts that begin at `starts`, each with an equal share; whole if there are none."""
    starts = starts or (0,)
    stops = (*starts[1:], None)
    ends = [size * (i + 1) // len(starts) for i in range(len(starts))]
    shares = [end - begin for begin, end in zip((0, *ends), ends, strict=False)]
    return [Part(file, start, stop, share) for start, stop, share in zip(starts, stops, shares, strict=True)]


@dataclass(frozen=True)
class Mishap:
    """A document that could not be read, or a whole file or the rest of one: its name, its place if it has one, why."""

    file: InputFile
    id: str
    place: int | None
    what: str


@dataclass
class Mishaps:
    """What could not be read. With on_error "raise" the first one ends the run; with "skip" they are counted.

    A document counts as one, and so does a file that breaks off: what was read of it before stays. `keep` gets all of
    them, some at a time. `by_file` counts them by the name of their file, with the first of each; `examples` has the
    first five. `ignored` counts, by source, members of tars that no document is made of (images, say); `empty` names
    files of 0 bytes.
    """

    on_error: str = "raise"
    keep: Callable[[list[Mishap]], None] | None = None
    by_file: dict[str, tuple[int, str]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    _waiting: list[Mishap] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """Documents, or whole files, that were passed over."""
        return sum(count for count, _ in self.by_file.values())

    def report(self, error: SourceError, file: InputFile, id: str | None = None, place: int | None = None) -> None:
        """Raise, or count; without an id it is the file that cannot be read."""
        if self.on_error == "raise":
            raise error
        what = portable(error.what)
        if len(self.examples) < 5:
            self.examples.append(what)
        count, first = self.by_file.get(file.name, (0, what))
        self.by_file[file.name] = count + 1, first
        if self.keep:
            self._waiting.append(Mishap(file, id or f"{file.source}/{file.name}", place, what))
            if len(self._waiting) >= _WAITING:
                self.flush()

    @property
    def told(self) -> int:
        """All that was found."""
        return self.skipped + self.ignored.total() + len(self.empty)

    def taken(self) -> Mishaps:
        """What was found so far, which is no longer in here."""
        found = Mishaps(self.on_error, None, self.by_file, self.examples, self.ignored, self.empty)
        self.by_file, self.examples, self.ignored, self.empty = {}, [], Counter(), []
        return found

    def add(self, others: Mishaps) -> None:
        """Count what was found elsewhere."""
        for name, (more, first) in others.by_file.items():
            count, known = self.by_file.get(name, (0, first))
            self.by_file[name] = count + more, known
        self.examples += others.examples[: 5 - len(self.examples)]
        self.ignored.update(others.ignored)
        self.empty += others.empty

    def finish(self) -> dict[str, object]:
        """Hand over what is still waiting; what was found, as a JSON value: of files their number and the first 20."""
        self.flush()
        damaged = [f"{first} (and {count - 1:,} more there)" if count > 1 else first
                   for count, first in self.by_file.values()]  # fmt: skip
        return {"unreadable": self.skipped, "damaged": (len(damaged), damaged[:SHOWN_FILES]),
                "empty": (len(self.empty), self.empty[:SHOWN_FILES]), "ignored": self.ignored.total()}  # fmt: skip

    def flush(self) -> None:
        """Hand over what is still waiting."""
        if self.keep and self._waiting:
            self.keep(self._waiting)
            self._waiting = []


def skippable(what: str, advice: str = "Mend it", gain: str = "") -> SourceError:
    """The error for what a run can go on without: what is wrong, and what to do about it, of which skipping is one."""
    return SourceError(what, f'{advice}, or say on_error="skip"{gain}.', arguments="on_error")


def portable(text: str) -> str:
    """Text that any file can hold: what UTF-8 cannot spell (bytes of file names that are none) is spelt out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def expand(source: str, paths: Sequence[str]) -> list[InputFile]:
    """The files behind names, folders (all below) and patterns (`*`, braces, `::`, `~`), sorted inside folders and `*`.

    In folders, hidden files are left out, and what Hugging Face's `datasets` keeps beside its Arrow files.
    Their names count from the folder that all of `paths` share, so that two files never get one name.
    """
    spelt = {given: expand_names(given) or [given] for given in paths}
    names = [name for given in paths for name in spelt[given]]
    found = {name: _found(name) for name in names}
    for given in paths:
        refuse_missing(given, [name for name in spelt[given] if not found[name]], f" (source {source!r})")
    root = os.path.commonpath([os.path.abspath(_fixed_part(name)) for name in names])
    each = (path for name in names for path in found[name])
    files = [InputFile(source, address_of(path), _portable(os.path.relpath(path, root))) for path in each]
    name, count = Counter(file.name for file in files).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"Source {source!r} names the file {name} {count} times: each may be read once.")
    return files


def _found(name: str) -> list[str]:
    """The files of a folder or a pattern; what cannot be listed or looked at is an error."""
    place = place_at(name)
    try:
        return _below(place) if place.is_folder() else place.matching()
    except OSError as error:
        at, why = error.filename or name, error.strerror or error
        if isinstance(at, str) and _is_folder(at):
            raise SourceError(f"The folder {at} cannot be listed ({why}).") from error
        raise SourceError(f"{at} cannot be looked at ({why}).") from error


def _is_folder(path: str) -> bool:
    try:
        return place_at(path).is_folder()
    except OSError:
        return False


def _below(folder: Place) -> list[str]:
    """All files below a folder, through links to folders too."""
    walked = folder.walk(links=True)
    return sorted([os.path.join(here, name) for here, names in walked for name in _data_files(names)], key=Path)


def _data_files(names: list[str]) -> list[str]:
    """The names in one folder that are data."""
    if not _HUGGING_FACE.intersection(names):
        return names
    return [
        name
        for name in names
        if name not in _HUGGING_FACE and not name.endswith(".lock") and not fnmatch(name, "cache-*.arrow")
    ]


def _fixed_part(given: str) -> Path:
    """A folder itself, the folder of a file, or that of a pattern up to its first wildcard."""
    path = Path(given)
    if place_at(path).is_folder():
        return path
    fixed = list(path.parent.parts)
    if not place_at(path).is_file():
        fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), fixed))
    return Path(*fixed)


def _portable(name: str) -> str:
    """A file's name as text that any system can hold: bytes of it that are not UTF-8 are spelt out."""
    return Path(os.fsencode(name).decode("utf-8", "backslashreplace")).as_posix()
