"""Jobs and their markers: what is finished says so, with the fingerprint of all that it depends on.

WORK/curate/00000003.parquet     what the job made
WORK/curate/00000003.json        its marker, written last: fingerprint and figures
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from gristmill.core.hashing import fingerprint
from gristmill.core.progress import BYTES, Progress
from gristmill.engine.base import Engine
from gristmill.places.door import place_at
from gristmill.places.folders import LOCK, is_lock, look_at, only_run, refuse_others, remove
from gristmill.places.local import is_temporary

Facts = dict[str, Any]

# In the folder of a store while it is made: all work where no other folder is given, and always the markers of shards,
# which must not outlive the shards that they vouch for.
WORK = ".work"
# The step that saves what later runs need to find near duplicates of this one's texts.
SAVED_INDEX = "saved-index"
# A unit's number is its source's ordinal and its place there, so that a source that grows does not move the others.
UNITS_A_SOURCE = 1 << 20
ROWS_A_UNIT = 1 << 32

# In a work folder that is kept: it says that the folder is ours.
_MARKER, _MARK = "gristmill-work.json", '{"gristmill": "work"}\n'
_QUERIES = r"(id|exact|near|evidence|layout|split|saved-index)"
_NAMES = re.compile("|".join((
    r"(curate|lines|trim|sign|tokens)/([0-9a-f]{8,}\.(json|parquet|dropped\.parquet|bin))?",
    r"shards/((train|val)-[0-9]{5,}\.json)?",
    rf"{_QUERIES}\.json|{_QUERIES}/(stands-on)?",
    r"(?P<query>id|exact|near|evidence|layout|split)/(?P=query)\.parquet",
    r"near/near\.alarms|near/steps/|near/steps/(candidates|wanted|resolved|evidence)\.parquet",
    r"near/steps/((pairs|crowded|members)-[0-9]+-[0-9]+\.parquet|edges-[0-9]+\.parquet|sets-[0-9]+\.arrow)",
    r"layout/passes\.parquet|(mix|split)-counts\.parquet|saved-index/kept\.parquet",
    r"repeated-lines/(stands-on|lines-[0-9]+-of-[0-9]+\.parquet)?",
    r"evaluations-[0-9a-f]{32}/(done|[a-z_]+\.npy)?",
    r"spill/(duckdb_temp_[\w.-]+)?",
)))  # fmt: skip


def is_work(name: str) -> bool:
    """Whether this name in a work folder is one that a run gives to its files."""
    return _NAMES.fullmatch(name) is not None or is_temporary(Path(name).name)


def is_work_of_store(name: str) -> bool:
    """The same of names in the folder of a store."""
    return name.startswith(f"{WORK}/") and (name == f"{WORK}/" or is_work(name.removeprefix(f"{WORK}/")))


def look_at_work(folder: Path) -> None:
    """Refuse a folder that is to be kept for work, where it is not new or empty nor marked as such by a run."""
    look_at(folder, lambda: _refuse_others(folder))


@contextmanager
def kept_work(folder: Path) -> Iterator[None]:
    """Hold a work folder that is kept, and mark it."""
    with only_run(folder, lambda: _refuse_others(folder)):
        place_at(folder / _MARKER).write(_MARK)
        clear_temporary(folder)
        yield


def _refuse_others(folder: Path) -> None:
    path = folder / _MARKER
    marked = not path.is_symlink() and path.is_file() and path.read_text() == _MARK

    def is_ours(name: str) -> bool:
        if name == LOCK:
            return is_lock(folder / name)
        return is_temporary(name) or (marked and (name == _MARKER or is_work(name)))

    refuse_others(folder, is_ours, "the work")


def clear_temporary(folder: Path) -> None:
    """Remove what a killed run left half-written, or spilt."""
    remove(folder, lambda name: is_temporary(Path(name).name)
           or (is_work(name) and name.endswith("/")) or (is_work(name) and name.startswith("spill/")))  # fmt: skip


def fresh_folder(folder: Path, expected: str) -> None:
    """A folder for a step's own files: what a killed run left there is used if it stood on the same things."""
    stands_on = folder / "stands-on"
    if not stands_on.exists() or stands_on.read_text() != expected:
        remove(folder.parent, lambda name: name.startswith(f"{folder.name}/") and is_work(name))
        folder.mkdir(parents=True, exist_ok=True)
        place_at(stands_on).write(expected)


class Job(Protocol):
    """One unit of work: called in a worker, it writes its files and returns its figures."""

    @property
    def marker(self) -> Path: ...
    @property
    def outputs(self) -> Sequence[Path]:
        """The files it leaves: one that is gone means that the job is not done."""

    @property
    def depends(self) -> Any:
        """All that its files depend on, as a JSON value."""

    @property
    def size(self) -> int:
        """Bytes of input, or another figure of how much it is, for progress."""

    def __call__(self) -> Facts: ...


@dataclass(frozen=True, kw_only=True)
class UnitJob:
    """A job on one unit of `size` bytes: its files are FOLDER/NUMBER with these suffixes."""

    suffixes: ClassVar[Sequence[str]] = (".parquet",)
    number: int
    folder: Path
    size: int

    @property
    def marker(self) -> Path:
        return self.folder / f"{self.number:08x}.json"

    @property
    def outputs(self) -> Sequence[Path]:
        return [self.marker.with_suffix(suffix) for suffix in self.suffixes]


@dataclass(frozen=True)
class Done:
    """A finished job: its figures, and what those who stand on it depend on."""

    facts: Facts
    fingerprint: str


def complete(engine: Engine, jobs: Sequence[Job], progress: Progress, what: str, unit: str = BYTES) -> list[Done]:
    """Do the jobs that are not done yet, which alone count as work; the results of all, in order."""
    found = [_finished(job) for job in jobs]
    left = [job for job, done in zip(jobs, found, strict=True) if done is None]
    progress.start(what, sum(job.size for job in left), unit)
    fresh = _fresh(engine, left, progress)
    return [done or next(fresh) for done in found]


def _finished(job: Job) -> Done | None:
    """A job's result, if all of its files are there."""
    done = read_marker(job.marker, fingerprint(job.depends))
    return done if done and all(path.exists() for path in job.outputs) else None


def _fresh(engine: Engine, jobs: Sequence[Job], progress: Progress) -> Iterator[Done]:
    for job, done in zip(jobs, engine.map(perform, jobs), strict=True):
        progress.advance(job.size)
        yield done


def perform(job: Job) -> Done:
    """Do a job and say so. What a marker of other things says ends here: its files are about to be replaced."""
    job.marker.unlink(missing_ok=True)
    done = Done(job(), fingerprint(job.depends))
    place_at(job.marker).write(json.dumps({"fingerprint": done.fingerprint, "facts": done.facts}) + "\n")
    return done


def read_marker(marker: Path, expected: str) -> Done | None:
    """A finished job, or None where there is none or it stood on other things."""
    try:
        values = json.loads(marker.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return Done(values["facts"], expected) if values["fingerprint"] == expected else None


def first_doc(unit: int) -> int:
    """The number of a unit's first document; the next unit's is 2^32 higher."""
    return unit * ROWS_A_UNIT
