"""The evaluations that a recipe decontaminates against, read and indexed once a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from gristmill.core.errors import SourceError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import content
from gristmill.core.paths import write_atomic
from gristmill.core.progress import Progress
from gristmill.curate.base import Rule
from gristmill.curate.decontaminate import Decontaminate, DecontaminateOptions, Item, build_index, texts_of
from gristmill.recipe import Recipe
from gristmill.sources.base import InputFile, expand
from gristmill.sources.streams import Stream, unpacked_name
from gristmill.stages.curate import Curation
from gristmill.store.files import sampled_checksum

_RECORDS = (".jsonl", ".ndjson", ".json")
_SHOWN = 3


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
    def content(self) -> dict[str, Any]:
        """For the manifest: the options, and each file by name and checksum."""
        options = {key: value for key, value in content(self.options).items() if key != "paths"}
        return {**options, "files": [[file.name, sampled_checksum(file.path)] for file in self.files]}

    def rule(self, work: Path, progress: Progress) -> Decontaminate:
        """The rule over their index, which is built in `work` unless it is there."""
        folder = work / f"evaluations-{fingerprint(self.content)}"
        done = folder / "done"
        if not done.exists():
            report = build_index((item for file in self.files for item in _items(file, self.options)),
                                 self.options, folder)  # fmt: skip
            write_atomic(done, json.dumps(list(report.too_short)))
        too_short = json.loads(done.read_text())
        if too_short:
            shown = ", ".join(too_short[:_SHOWN])
            progress.note(f"{len(too_short):,} items of the evaluations are too short to be looked for: {shown} ...")
        return Decontaminate(str(folder))


def curation_of(recipe: Recipe, work: Path, progress: Progress) -> Curation:
    """What every document goes through by itself: cleaning, the filters, and at last the search for evaluations."""
    rules: list[Rule] = list(recipe.filters)
    if recipe.decontaminate:
        rules.append(Evaluations.of(recipe.decontaminate).rule(work, progress))
    return Curation(recipe.clean, tuple(rules), recipe.on_error)


def _items(file: InputFile, options: DecontaminateOptions) -> Iterator[Item]:
    """The items of a file by name: records of JSON lines, or a text as a whole."""
    with Stream(file) as stream:
        data = b"".join(iter(stream.read, b""))
    try:
        if PurePath(unpacked_name(file.path)).suffix.lower() not in _RECORDS:
            yield file.name, [data.decode()]
            return
        for number, line in enumerate(data.splitlines(), 1):
            if line.strip():
                yield f"{file.name}:{number}", texts_of(json.loads(line), options.fields)
    except ValueError as error:  # no UTF-8, no JSON
        raise SourceError(f"The evaluation {file.path} cannot be read: {error}.") from error
