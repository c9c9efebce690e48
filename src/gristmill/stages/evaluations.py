"""The evaluations that a recipe decontaminates against, read and indexed once a run."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from gristmill.core.errors import SourceError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import content
from gristmill.core.progress import Progress
from gristmill.curate.base import Rule
from gristmill.curate.chain import Curation
from gristmill.curate.decontaminate import (
    Decontaminate,
    DecontaminateOptions,
    Item,
    build_index,
    index_files,
    texts_of,
)
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.recipe import Recipe
from gristmill.sources.base import InputFile, expand
from gristmill.sources.json_rows import parse_json
from gristmill.sources.lines import read_whole
from gristmill.sources.streams import Stream, unpacked_name
from gristmill.stages.work import Facts, UnitJob, perform
from gristmill.store.files import sampled_checksum

_JSON = ".json"
_RECORDS = (".jsonl", ".ndjson", _JSON)
_SHOWN = 3
# Their index takes 40 bytes for each byte of text.
_MOST_BYTES = 256 << 20


def _checksum(file: InputFile) -> str:
    try:
        return sampled_checksum(file.path)
    except OSError as error:
        raise SourceError(f"{file.path} cannot be read ({error.strerror}): name files of evaluations.") from error


@dataclass(frozen=True)
class Evaluations:
    """The files of evaluations, and what their index depends on."""

    options: DecontaminateOptions
    files: tuple[InputFile, ...]

    @staticmethod
    def of(options: DecontaminateOptions) -> Evaluations:
        """The files that the options name."""
        return Evaluations(options, tuple(expand("evaluations", options.paths)))

    @property
    def content(self) -> dict[str, object]:
        """For the manifest: the options, and each file by name and checksum."""
        options = {key: value for key, value in content(self.options).items() if key != "paths"}
        return {**options, "files": [[file.name, _checksum(file)] for file in self.files]}

    def rule(self, work: Address, progress: Progress) -> Decontaminate:
        """The rule over their index, which is built in `work` unless it is there."""
        job = _IndexJob(evaluations=self, folder=work / f"evaluations-{fingerprint(self.content)}")
        place_at(job.folder).make_folder()
        too_short = perform(job).facts["too_short"]
        if too_short:
            shown = ", ".join(too_short[:_SHOWN])
            progress.note(f"{len(too_short):,} items of the evaluations are too short to be looked for: {shown} ...")
        return Decontaminate(str(job.folder))


@dataclass(frozen=True, kw_only=True)
class _IndexJob(UnitJob):
    """Indexes evaluations in a folder of their own name: a process that has one open must not take it for another."""

    evaluations: Evaluations

    @property
    def outputs(self) -> Sequence[Address]:
        return list(index_files(self.folder).values())

    @property
    def depends(self) -> object:
        return self.evaluations.content

    def __call__(self) -> Facts:
        options = self.evaluations.options
        items = (item for file in self.evaluations.files for item in _items(file, options))
        return {"too_short": build_index(items, options, self.folder)}


def curation_of(recipe: Recipe, work: Address, progress: Progress) -> Curation:
    """What every document goes through by itself: cleaning, the filters, and at last the search for evaluations."""
    rules: list[Rule] = list(recipe.filters)
    if recipe.decontaminate:
        rules.append(Evaluations.of(recipe.decontaminate).rule(work, progress))
    return Curation(recipe.clean, tuple(rules))


def _items(file: InputFile, options: DecontaminateOptions) -> Iterator[Item]:
    """The items of a file by name: records of JSON lines or of a JSON array, or a text as a whole."""
    try:
        data, suffix = _whole(file), PurePath(unpacked_name(file.path)).suffix.lower()
        if suffix not in _RECORDS:
            yield file.name, [data.decode("utf-8-sig")]
            return
        for number, record in _records(data, suffix):
            yield f"{file.name}:{number}", _texts(record, options)
    except (ValueError, RecursionError, OSError) as error:  # no UTF-8, no JSON, a thousand brackets
        raise SourceError(f"The evaluation {file.path} cannot be read: {error}.") from error


def _whole(file: InputFile) -> bytes:
    """The bytes of a file, if they are few enough to be indexed."""
    with Stream(file) as stream:
        data = read_whole(stream, _MOST_BYTES)
    if data is None:
        raise SourceError(f"The evaluation {file.path} has more than {_MOST_BYTES >> 20:,} MiB of text.")
    return data


def _texts(record: object, options: DecontaminateOptions) -> list[str]:
    """A record's texts, if UTF-8 can hold them: JSON's escapes can spell half of a surrogate pair."""
    found = texts_of(record, options.fields)
    "".join(found).encode("utf-8")
    return found


def _records(data: bytes, suffix: str) -> Iterator[tuple[int, object]]:
    """The records of a file, counted from 1: elements of a `.json` array, or lines that are not blank."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if suffix == _JSON and isinstance(whole := parse_json(data) if data.lstrip().startswith(b"[") else None, list):
        yield from enumerate(whole, 1)
        return
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield number, parse_json(line)
