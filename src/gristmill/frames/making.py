"""A store of a DataFrame: its rows are surveyed, written to the work folder by its workers, prepared as files are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import reduce
from operator import xor
from typing import Protocol

from gristmill.core.errors import EngineError, SourceError
from gristmill.core.options import as_options
from gristmill.core.progress import Progress, Shown, shown
from gristmill.core.seal import is_sealed, sealed
from gristmill.core.sizes import parse_size
from gristmill.engine.base import Engine
from gristmill.frames.recipe import ROWS, FrameRecipe
from gristmill.frames.rows import RowFiles, Written
from gristmill.places.address import Address
from gristmill.places.door import absolute, place_at
from gristmill.places.folders import remove
from gristmill.places.storage import use
from gristmill.recipe import SourceOptions
from gristmill.run import RunOptions, prepare_rows
from gristmill.sources.base import InputFile, skippable
from gristmill.store.manifest import Manifest

# Text of a bucket, about, until there are as many buckets as a shuffle can have parts.
BUCKET_BYTES, MOST_BUCKETS = 64 << 20, 1 << 16
_MARKER = "00000000.json"


@dataclass(frozen=True)
class Survey:
    """What a DataFrame holds: rows, bytes of text, sums of hashes that no order changes, rows without a text."""

    rows: int
    bytes: int
    xor: int
    low: int
    nulls: int
    null_id: str | None

    @property
    def buckets(self) -> int:
        """Files that it becomes, a power of two."""
        return min(1 << (self.bytes // BUCKET_BYTES).bit_length(), MOST_BUCKETS)


class FrameRows(Protocol):
    """A DataFrame as its adapter sees it."""

    def survey(self) -> Survey:
        """Go once over all rows."""

    def write(self, files: RowFiles, buckets: int) -> Iterable[Written]:
        """Each row into the file of its bucket, sorted by hash of its id and by all that it holds."""

    def engine(self, memory: int) -> Engine:
        """Where the recipe is to run."""


def prepare_frame(
    made: FrameRecipe,
    rows: FrameRows,
    overwrite: bool,
    progress: Shown,
    options: RunOptions | Mapping[str, object] | None,
) -> Manifest:
    """The store of a DataFrame."""
    chosen = as_options(RunOptions, options)
    use(made.recipe.storage)
    with shown(progress) as told, closing(rows.engine(parse_size(chosen.memory, "memory") // 2)) as engine:
        written = _Rows(made, rows, told)
        return prepare_rows(made.recipe, written.in_folder, engine, overwrite, told, chosen)


@dataclass(frozen=True)
class _Rows:
    made: FrameRecipe
    rows: FrameRows
    progress: Progress

    @property
    def _source(self) -> SourceOptions:
        return self.made.source

    def in_folder(self, work: Address) -> list[InputFile]:
        """The files of all rows: those that an earlier run has written, if the rows are the same, or new ones."""
        self.progress.start("looking at the DataFrame", 0)
        survey, folder = self.rows.survey(), work / ROWS
        self._check(survey)
        found = self._found(folder, survey)
        return self._inputs(folder, self._written(folder, survey) if found is None else found)

    def _check(self, survey: Survey) -> None:
        if not survey.rows:
            raise SourceError("The DataFrame has no rows: there is nothing to write.")
        if survey.nulls and self.made.recipe.on_error == "raise":
            named = f", such as that with the id {survey.null_id!r}" if self.made.id_col and survey.null_id else ""
            raise skippable(
                f"{survey.nulls:,} of {survey.rows:,} rows of the DataFrame have no text in {self._source.text!r} "
                f"(null){named}.",
                "Leave them out",
                " to have them counted",
            )

    def _facts(self, survey: Survey) -> dict[str, object]:
        return {"survey": asdict(survey), "columns": list(_columns(self._source)), "id": self.made.id_col}

    def _found(self, folder: Address, survey: Survey) -> list[tuple[int, str, int]] | None:
        """The files that a marker vouches for."""
        place = place_at(folder / _MARKER)
        data = place.read() if place.exists() else b""
        values = json.loads(data) if is_sealed(data) else {}
        if any(values.get(key) != value for key, value in self._facts(survey).items()):
            return None
        files = [(bucket, name, size) for bucket, name, size in values["files"]]
        return files if all(_is_there(folder, name, size) for _, name, size in files) else None

    def _written(self, folder: Address, survey: Survey) -> list[tuple[int, str, int]]:
        """All rows written anew; what other attempts have left goes."""
        self.progress.start("writing the rows of the DataFrame", 0)
        place_at(folder).make_folder()
        place_at(folder / _MARKER).remove()
        columns = _columns(self._source)
        written = sorted(self.rows.write(RowFiles(absolute(folder), columns), survey.buckets))
        _check_same(survey, written)
        files = [(each.bucket, each.name, each.size) for each in written]
        _check_there(folder, files)
        kept = {name for _, name, _ in files}
        remove(folder, lambda name: name not in kept)
        place_at(folder / _MARKER).write(sealed({**self._facts(survey), "files": files}))
        return files

    def _inputs(self, folder: Address, files: Sequence[tuple[int, str, int]]) -> list[InputFile]:
        return [InputFile(self._source.name, folder / name, f"{ROWS}-{bucket:05}.parquet") for bucket, name, _ in files]


def _columns(source: SourceOptions) -> tuple[str, ...]:
    return (source.id, source.text, *source.fields)


def _is_there(folder: Address, name: str, size: int) -> bool:
    place = place_at(folder / name)
    return place.exists() and place.size() == size


def _check_there(folder: Address, files: Sequence[tuple[int, str, int]]) -> None:
    for _, name, size in files:
        if not _is_there(folder, name, size):
            raise EngineError(
                f"A worker wrote {folder / name}, which is not here: choose an output or a work folder that all nodes "
                "see."
            )


def _check_same(survey: Survey, written: Sequence[Written]) -> None:
    """Refuse a DataFrame that gave other rows when it was written than when it was surveyed."""
    rows, low = sum(each.rows for each in written), sum(each.low for each in written)
    if (rows, low, reduce(xor, (each.xor for each in written), 0)) != (survey.rows, survey.low, survey.xor):
        raise SourceError(
            f"The DataFrame does not give the same rows twice ({survey.rows:,} at first, then {rows:,}; not all are "
            "equal).",
            "Read its table at a version (versionAsOf for Delta, snapshot-id for Iceberg), or write the rows to "
            "Parquet first and read them from there.",
        )
