"""The folder in which a run works: which names in it are a run's, and how it is held.

Every file of a step lies in the folder of this step, by the number of a unit or of a pass; what it is, its suffix says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gristmill.places.door import place_at
from gristmill.places.folders import look_at, only_run, refuse_others, remove
from gristmill.places.local import is_temporary

# In the folder of a store while it is made: all work where no other folder is given, and always the markers of what is
# written to the store itself, which must not outlive the files that they vouch for.
WORK = ".work"
# The folder that queries spill to.
SPILL = "spill"
STEPS = (
    "curate", "id", "exact", "lines", "repeated", "trim", "sign", "members", "crowded", "pairs", "candidates",
    "wanted", "sets", "edges", "resolved", "near", "kept", "index", "tokens", "layout", "counts", "split", "plan",
    "shards", "evidence", "account",
)  # fmt: skip
_NAMES = re.compile("|".join((
    rf"({'|'.join(STEPS)})/([0-9a-f]{{8,}}(-[0-9]{{5,}})?\.(json|parquet|dropped\.parquet|bin|arrow))?",
    r"shards/(train|val)-[0-9]{5,}\.json",
    r"evaluations-[0-9a-f]{32}/([a-z_]+\.npy|0{8}\.json)?",
    rf"{SPILL}/(duckdb_temp_[\w.-]+)?",
)))  # fmt: skip
# In a work folder that is kept: it says that the folder is ours.
_MARKER, _MARK = "gristmill-work.json", '{"gristmill": "work"}\n'


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
    refuse_others(folder, lambda name: marked and (name == _MARKER or is_work(name)), "the work")


def clear_temporary(folder: Path) -> None:
    """Remove what a killed run left half-written, or spilt."""
    remove(folder, lambda name: is_temporary(Path(name).name)
           or (is_work(name) and name.endswith("/")) or (is_work(name) and name.startswith(f"{SPILL}/")))  # fmt: skip
