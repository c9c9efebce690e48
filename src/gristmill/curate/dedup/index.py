"""An index of kept documents: what a later run needs to find near duplicates of them.

    index.json                 what it was made with; written last
    part-000000.keys.parquet   (doc, keep_key, key_00, ...): signatures
    part-000000.sets.arrow     shingle sets: 8 bytes a shingle, about 1.3 times the text by words
    part-000000.ids.parquet    (doc, id): the documents' own ids

Documents of an index have negative numbers, (part - 2^30) << 32 | row, and come before all others in any keep order.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.curate.dedup.characters import unicode_version
from gristmill.curate.dedup.near import Near
from gristmill.curate.dedup.queries import alive, with_dropped
from gristmill.curate.dedup.sets import write_sets
from gristmill.curate.dedup.units import NearUnit, documents_of
from gristmill.curate.documents import Ints
from gristmill.engine.base import Engine
from gristmill.places.door import place_at
from gristmill.places.folders import (
    LOCK,
    UNFINISHED,
    claim,
    is_lock,
    look_at,
    only_run,
    read_claim,
    refuse_others,
    remove,
)
from gristmill.places.local import disk_errors, is_temporary
from gristmill.store.files import sampled_checksum

VERSION = 2
INDEX = "index.json"
INDEX_UNIT = -(1 << 30)
_FIRST = np.iinfo(np.int64).min
_KEYS, _SETS, _IDS = "keys.parquet", "sets.arrow", "ids.parquet"


@dataclass(frozen=True)
class Index:
    """An index that fits the options: its files, part by part."""

    keys: Sequence[Path]
    ids: Sequence[Path]
    notes: Sequence[str]


def index_fingerprint(folder: Path) -> str:
    """32 hex digits that name an index's content, wherever it lies."""
    described = _described(folder)
    files = [part_path(folder, part, _KEYS) for part in range(described["parts"])]
    return fingerprint([described, [sampled_checksum(file) for file in files]])


def part_path(folder: Path, part: int, kind: str) -> Path:
    """Where an index keeps a part's keys, sets or ids."""
    return folder / f"part-{part:06d}.{kind}"


def open_index(options: Near) -> Index:
    """The index that the options name, an empty one if none; ConfigError where it was made with other options."""
    if options.index is None:
        return Index([], [], [])
    folder = Path(options.index)
    described = _described(folder)
    for name, value in _made_with(options).items():
        if described.get(name) != value:
            raise ConfigError(
                f"The index {folder} was made with {name} {described.get(name)!r}, the recipe says {value!r}: "
                "use the index's options or make a new index."
            )
    if options.verify and not described["sets"]:
        raise ConfigError(f"The index {folder} has no shingle sets: make it with verify: true, or set verify: false.")
    parts = range(described["parts"])
    notes = [] if described["unicode"] == unicode_version() else [_other_unicode(folder, described["unicode"])]
    return Index([part_path(folder, i, _KEYS) for i in parts], [part_path(folder, i, _IDS) for i in parts], notes)


def _other_unicode(folder: Path, version: str) -> str:
    return (
        f"The index {folder} was made with Unicode {version}, this Python has {unicode_version()}: texts with "
        "characters that only one of them knows may not be found."
    )


def _described(folder: Path) -> Any:
    try:
        return json.loads((folder / INDEX).read_text())
    except FileNotFoundError:
        raise ConfigError(f"{folder} is no near-duplicate index (no index.json): give one that a run saved.") from None


def _made_with(options: Near) -> dict[str, Any]:
    """What keys and sets depend on."""
    bands, rows = options.shape
    return {
        "version": VERSION,
        "permutations": options.permutations,
        "bands": bands,
        "rows": rows,
        "ngram": options.ngram,
        "unit": options.unit,
        "seed": options.seed,
    }


def is_part(name: str) -> bool:
    """Whether a name in the folder of an index is one of its files."""
    return name == INDEX or re.fullmatch(r"part-[0-9]{6,}\.(keys\.parquet|sets\.arrow|ids\.parquet)", name) is not None


@dataclass(frozen=True)
class IndexFolder:
    """The folder in which a run saves an index: a new or empty one, or what the same run left there when it was cut."""

    folder: Path
    run: str

    @property
    def about(self) -> dict[str, Any]:
        return {"making": "index", "command": "prepare --save-index", "run": self.run}

    def look(self) -> None:
        """Refuse it where it holds anything else; nothing is written for that."""
        look_at(self.folder, self._check)

    @contextmanager
    def making(self) -> Iterator[None]:
        """Hold it until the run has ended."""
        with only_run(self.folder, self._check):
            made = claim(self.folder, self.about)
            remove(self.folder, is_temporary)
            yield
            made.release()

    def _check(self) -> None:
        begun = read_claim(self.folder)
        own = begun is not None and begun.about.get("making") == "index"

        def is_ours(name: str) -> bool:
            if name == LOCK:
                return is_lock(self.folder / name)
            return is_temporary(name) or (own and (name == UNFINISHED or is_part(name)))

        if (self.folder / INDEX).exists() and not (begun and begun.about == self.about):
            raise ConfigError(f"{self.folder} holds an index already: choose a new folder.")
        refuse_others(self.folder, is_ours, "an index")


@dataclass(frozen=True)
class _Part:
    unit: NearUnit
    kept: Path
    options: Near
    folder: Path
    number: int


def save_index(
    engine: Engine, units: Sequence[NearUnit], options: Near, dropped: Sequence[Path], folder: Path, work: Path
) -> None:
    """Write the index `folder`: that of the options, if any, and the documents of `units` not in files `dropped` (doc).

    Near duplicates that this run dropped belong into `dropped` too. The folder must be a new one, or one that
    `IndexFolder` holds: what a run that was cut short left there goes.
    """
    if read_claim(folder):
        remove(folder, is_part)
    elif (folder / INDEX).exists():
        raise ConfigError(f"{folder} holds an index already: choose a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    kept = work / "kept.parquet"
    if not kept.exists():
        sql = f"SELECT doc FROM {alive('signatures', 'doc', dropped)} AS kept ORDER BY doc"
        engine.query(sql, with_dropped({"signatures": [unit.signatures for unit in units]}, dropped), kept)
    before = _take_over(options, folder)
    for _ in engine.map(_save, [_Part(unit, kept, options, folder, before + i) for i, unit in enumerate(units)]):
        pass
    about = {"parts": before + len(units), "sets": options.verify, "unicode": unicode_version()}
    place_at(folder / INDEX).write(json.dumps(_made_with(options) | about, indent=1) + "\n")


def _take_over(options: Near, folder: Path) -> int:
    """Link the files of the earlier index into the new one (copy where a link cannot be); returns its parts."""
    files = [*open_index(options).keys, *open_index(options).ids]
    if options.verify:
        files += [path.with_name(path.name.replace(_KEYS, _SETS)) for path in open_index(options).keys]
    for file in files:
        target = folder / file.name
        target.unlink(missing_ok=True)
        with disk_errors(target):
            try:
                os.link(file, target)
            except OSError:
                shutil.copyfile(file, target)
    return len(open_index(options).keys)


def _save(part: _Part) -> None:
    kept = documents_of(part.unit.unit, part.kept)
    numbers = kept - (part.unit.unit << 32) + ((INDEX_UNIT + part.number) << 32)
    _save_keys(part, kept, numbers)
    _save_ids(part, kept, numbers)
    if part.options.verify:
        write_sets(part.unit.texts, kept, numbers, part.options, part_path(part.folder, part.number, _SETS))


def _save_keys(part: _Part, kept: Ints, numbers: Ints) -> None:
    import pyarrow as pa

    rows = _rows_of(part.unit.signatures, part.options.key_columns, kept)
    first = pa.array(np.full(len(kept), _FIRST, np.int64))
    table = rows.add_column(0, "keep_key", first).add_column(0, "doc", pa.array(numbers))
    _write(table, part_path(part.folder, part.number, _KEYS))


def _save_ids(part: _Part, kept: Ints, numbers: Ints) -> None:
    import pyarrow as pa

    rows = _rows_of(part.unit.texts, ["id"], kept)
    _write(rows.add_column(0, "doc", pa.array(numbers)), part_path(part.folder, part.number, _IDS))


def _rows_of(path: Path, columns: Sequence[str], docs: Ints) -> Any:
    """These columns of the rows of a Parquet file (in the order of doc) whose doc is among `docs`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["doc", *columns])
    wanted = np.isin(np.asarray(table["doc"]), docs, assume_unique=True)
    return table.filter(pa.array(wanted)).select(columns)


def _write(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    with place_at(path).writing() as file:
        pq.write_table(table, file, compression="zstd")
