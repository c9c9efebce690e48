"""Jobs, queries and their markers: what is finished says so, with the fingerprint of all that it depends on.

WORK/curate/00000003.parquet     what a job made
WORK/curate/00000003.json        its marker, written last: fingerprint and figures

There is no other way to go on after a crash: a job or a query is done if its marker names what it depends on now, and
the files that the marker vouches for are there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from gristmill.core.hashing import fingerprint
from gristmill.core.progress import BYTES, Progress, count
from gristmill.curate.ledger import READ
from gristmill.engine.base import Engine
from gristmill.places.address import Address
from gristmill.places.door import place_at, remove_all, sizes
from gristmill.places.local import standing_folders
from gristmill.stages.relation import Footer, Relation, footer

Facts = dict[str, Any]
# How many jobs are looked at side by side, whether they are done.
_LOOKS = 16


class Job(Protocol):
    """One unit of work: called in a worker, it writes its files and returns its figures."""

    @property
    def marker(self) -> Address: ...
    @property
    def outputs(self) -> Sequence[Address]:
        """The files it leaves: one that is gone means that the job is not done."""

    @property
    def depends(self) -> object:
        """All that its files depend on, as a JSON value."""

    @property
    def size(self) -> int:
        """Bytes of input, or another figure of how much it is, for progress."""

    def __call__(self) -> Facts: ...


@dataclass(frozen=True, kw_only=True)
class UnitJob:
    """A job on one unit of `size` bytes, or on a part of wide work: its files are FOLDER/NUMBER with these suffixes."""

    suffixes: ClassVar[Sequence[str]] = (".parquet",)
    number: int = 0
    folder: Address
    size: int = 0

    @property
    def marker(self) -> Address:
        return self.folder / f"{self.number:08x}.json"

    @property
    def outputs(self) -> Sequence[Address]:
        return [self.marker.with_suffix(suffix) for suffix in self.suffixes]


@dataclass(frozen=True, kw_only=True)
class TextsJob(UnitJob):
    """A job on the texts of a unit, which stand on the pass `upstream`."""

    texts: Address
    upstream: str


@dataclass(frozen=True)
class Done:
    """A finished job: its figures, and what those who stand on it depend on."""

    facts: Facts
    fingerprint: str


def relation_of(jobs: Sequence[UnitJob], done: Sequence[Done]) -> Relation:
    """What jobs wrote, the first file of each; they count their rows as they like."""
    rows = sum(result.facts.get("rows", 0) for result in done)
    return Relation(tuple(job.outputs[0] for job in jobs), fingerprint([result.fingerprint for result in done]), rows)


@dataclass(frozen=True)
class Query:
    """Wide work: SQL over tables, which may be the rows of other queries."""

    step: str
    sql: str
    tables: Mapping[str, Sequence[Relation | Query]]
    number: int = 0

    @property
    def fingerprint(self) -> str:
        tables = {name: [part.fingerprint for part in parts] for name, parts in self.tables.items()}
        return fingerprint([self.step, self.number, self.sql, tables])


@dataclass(frozen=True)
class Workshop:
    """Where the jobs and queries of a run are done: by its engine, in its folder, while somebody is told."""

    engine: Engine
    folder: Address
    progress: Progress

    def complete(self, jobs: Sequence[Job], what: str, unit: str = BYTES) -> list[Done]:
        """Do the jobs that are not done yet, which alone count as work; the results of all, in order."""
        with ThreadPoolExecutor(_LOOKS) as looking:  # a look may cost a request
            found = list(looking.map(finished, jobs))
            left = [job for job, done in zip(jobs, found, strict=True) if done is None]
            # What markers of other things say ends here, and not in a worker: a late second attempt at a job may not
            # remove the marker that the first one wrote.
            list(looking.map(lambda job: place_at(job.marker).remove(), left))
        for folder in {file.parent for job in left for file in (job.marker, *job.outputs)}:
            place_at(folder).make_folder()
        self.progress.start(what, sum(job.size for job in left), unit)
        for done in found:
            self._count(done)
        fresh = self._fresh(left)
        return [done or next(fresh) for done in found]

    def _count(self, done: Done | None) -> None:
        """Tell how many documents a job has read, and how many of them it keeps."""
        after = done.facts.get("after", {}) if done else {}
        if READ in after:
            count(self.progress, next(reversed(after.values()))[0], after[READ][0])

    def _fresh(self, jobs: Sequence[Job]) -> Iterator[Done]:
        for job, done in zip(jobs, self.engine.map(perform, jobs), strict=True):
            self.progress.advance(job.size)
            self._count(done)
            yield done

    def ask(self, query: Query, what: str = "") -> Relation:
        """The rows of a query, which is run only if they are not there, after the queries whose rows it reads."""
        found = self.answer(query)
        if found is None:
            tables = {name: [self.ask(part) if isinstance(part, Query) else part for part in parts]
                      for name, parts in query.tables.items()}  # fmt: skip
            if what:
                self.progress.start(what, 0)
            found = self._run(query, {name: [file for part in parts for file in part.files]
                                      for name, parts in tables.items()})  # fmt: skip
        return found

    def _run(self, query: Query, tables: Mapping[str, Sequence[Address]]) -> Relation:
        marker = self._marker(query)
        place_at(marker.parent).make_folder()
        place_at(marker).remove()
        files = self.engine.query(query.sql, tables, marker.with_suffix(".parquet"))
        found = zip(files, self.engine.map(footer, files), strict=True)
        facts = {"files": [[file.name, *ends] for file, ends in found]}
        return _answered(marker, _mark(marker, Done(facts, query.fingerprint)))

    def answer(self, query: Query) -> Relation | None:
        """The rows of a query that has been asked."""
        marker = self._marker(query)
        done = _read_marker(marker, query.fingerprint)
        found = _answered(marker, done) if done else None
        return found if found and _are_there(found.files) else None

    def _marker(self, query: Query) -> Address:
        return self.folder / query.step / f"{query.number:08x}.json"

    def forget(self, query: Query) -> None:
        """Remove rows that nobody will read again, after the marker that vouches for them."""
        found = self.answer(query)
        place_at(self._marker(query)).remove()
        remove_all(os.fspath(file) for file in (found.files if found else ()))


def _are_there(files: Sequence[Address]) -> bool:
    """Whether all of these are files; there may be thousands, in one folder."""
    try:
        return bool(list(sizes(os.fspath(file) for file in files)))
    except FileNotFoundError:
        return False


def finished(job: Job) -> Done | None:
    """A job's result, if all of its files are there."""
    done = _read_marker(job.marker, fingerprint(job.depends))
    return done if done and all(place_at(file).is_file() for file in job.outputs) else None


def perform(job: Job) -> Done:
    """Do a job and say so, unless another attempt at it already has.

    An attempt that is late, whose run has ended without it, finds no folder to write to.
    """
    with standing_folders():
        return finished(job) or _mark(job.marker, Done(job(), fingerprint(job.depends)))


def forget(jobs: Sequence[Job]) -> None:
    """Remove what jobs have made, after the markers that vouch for it."""
    for job in jobs:
        for file in (job.marker, *job.outputs):
            place_at(file).remove()


def _mark(marker: Address, done: Done) -> Done:
    place_at(marker).write(json.dumps({"fingerprint": done.fingerprint, "facts": done.facts}) + "\n")
    return done


def _read_marker(marker: Address, expected: str) -> Done | None:
    """A finished job, or None where there is none or it stood on other things."""
    try:
        values = json.loads(place_at(marker).read())
    except (FileNotFoundError, ValueError):
        return None
    return Done(values["facts"], expected) if values["fingerprint"] == expected else None


def _answered(marker: Address, done: Done) -> Relation:
    """The rows of a query by its marker, which says of each file what its footer does."""
    files = tuple(marker.with_name(name) for name, *_ in done.facts["files"])
    footers = tuple(Footer(*ends) for _, *ends in done.facts["files"])
    return Relation(files, done.fingerprint, sum(sum(found.groups) for found in footers), footers)
