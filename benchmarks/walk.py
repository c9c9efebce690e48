"""The walk: one document from JSONL to its shard, and one step of a loader, traced call by call.

python benchmarks/walk.py                    functions, modules, and crossings between the rooms of the house
python benchmarks/walk.py --against a9bd510  side by side with a commit of its history
python benchmarks/walk.py --list             every crossing

A room is a folder of the package. A crossing is a function of one room that calls a function of another: each pair
counts once, however often it happens. `core` and `places` are the ground that all rooms stand on, and are no rooms.
What a batch costs is the difference between walks of three documents and of two, each a batch of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import gristmill
from gristmill.sources import batches
from measure import tree_of

_PACKAGE = str(Path(gristmill.__file__).parent) + os.sep
_GROUND = ("core", "places")
_PARTS_OF_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")

TEXTS = (
    """It was late in the autumn when the miller first noticed that the stream had changed its voice. All summer it had
run quietly under the alders, and the wheel had turned as it always did, slow in the morning and quicker at night. Now
there was a second sound beneath the first, a low grinding that came and went with the wind. He walked the bank twice a
day and could find nothing that would explain it. His daughter, who kept the accounts, said that it came from the pond
above the weir. They took the flat boat out on a Sunday, and they found that a beech had fallen across the inlet.""",
    """Before bread there is flour, and before flour there is the patient work of two stones. The lower one lies still,
bedded in clay, and is cut with furrows that run from the eye to the skirt. The upper one turns above it at a distance
of a hair, and the whole art of the trade is to keep that distance while the weather changes the wood around it. Grain
that is ground too close grows warm and loses its smell. Grain that is ground too wide comes out as grit, and nobody
will carry it home twice. A good hand hears the difference through the floor, and sets the wedge without looking.""",
    """The village had three bridges, of which only the middle one was ever mended. Carts went round by the ford until
the year of the flood, when the council met in the school and voted for stone. An engineer came from the coast with a
brass level and a boy to hold the staff for him. He measured for a week, asked for the oldest people, and let them show
him on the church wall how high the river had stood in their time. Then he drew a single arch, higher than anyone
liked, and said that he would rather be laughed at for the slope than be remembered for the span.""",
)


@dataclass
class Walk:
    """What was called while it was on: functions by module, and crossings from room to room."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    crossings: Counter[tuple[str, str]] = field(default_factory=Counter)
    # How often each job entered each room.
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    jobs_only: bool = False

    def __enter__(self) -> Walk:
        gc.collect()
        gc.disable()  # what others have left ends when it is collected, which would look like calls of ours
        sys.setprofile(self._seen)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(None)
        gc.enable()

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (module := _module(frame)) is None:
            return
        job = _job(frame)
        if self.jobs_only and job is None:
            return
        if frame.f_code.co_name not in _PARTS_OF_FUNCTIONS:
            self.functions.add((module, frame.f_code.co_qualname))
        caller = _caller(frame)
        if caller and _room(module) not in (*_GROUND, _room(caller[0])):
            self.crossings[_named(*caller), _named(module, frame.f_code.co_qualname)] += 1
            self.entries[job or "", _room(module)] += 1

    @property
    def modules(self) -> set[str]:
        return {module for module, _ in self.functions}


def _module(frame: FrameType) -> str | None:
    """The module of ours that a frame belongs to: what is imported, and what dataclasses write, is no call."""
    path = frame.f_code.co_filename
    return path[len(_PACKAGE) : -3] if path.startswith(_PACKAGE) and frame.f_code.co_name != "<module>" else None


def _room(module: str) -> str:
    return module.split(os.sep)[0]


def _named(module: str, function: str) -> str:
    return f"{module} {function.split('.<locals>')[0]}"


def _caller(frame: FrameType) -> tuple[str, str] | None:
    """The function in a room that led to this call, through the ground and other people's code."""
    back = frame.f_back
    while back is not None and ((module := _module(back)) is None or _room(module) in _GROUND):
        back = back.f_back
    return (module, back.f_code.co_qualname) if back is not None and module else None


def _job(frame: FrameType) -> str | None:
    """The job that is at work."""
    back: FrameType | None = frame
    while back is not None:
        name = back.f_code.co_qualname
        if name.endswith("Job.__call__") and _module(back):
            return name.removesuffix(".__call__")
        back = back.f_back
    return None


@dataclass(frozen=True)
class Steps:
    """What the documents go through."""

    filters: Sequence[str] = ("length", "language", "gopher_quality", "gopher_repetition", "c4", "fineweb")
    dedup: Sequence[str] = ("exact", "near")


def prepare(folder: Path, documents: int, steps: Steps) -> Path:
    """A store of as many of the texts."""
    lines = [json.dumps({"id": f"doc-{i}", "text": " ".join(TEXTS[i].split())}) + "\n" for i in range(documents)]
    (folder / "raw.jsonl").write_text("".join(lines))
    recipe = {
        "out": str(folder / "out"),
        "sources": [{"name": "web", "paths": [str(folder / "raw.jsonl")]}],
        "filters": [{name: {}} for name in steps.filters],
        "dedup": [{name: {}} for name in steps.dedup],
        "tokenizer": "byte",
        "store": {"val_fraction": 0},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    gristmill.prepare(folder / "recipe.json", progress=False)
    if (kept := gristmill.open(folder / "out" / "train").num_documents) != documents:
        raise SystemExit(f"Only {kept} of {documents} documents came through.")
    return folder / "out"


@cache
def load(steps: Steps) -> None:
    """Compile and load what is needed once: tracing that would take minutes."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), 1, steps)


def walk_document(steps: Steps, documents: int = 1) -> Walk:
    """From JSONL to shard: all that jobs do, each document in a batch of its own."""
    load(steps)
    walk, before = Walk(jobs_only=True), batches.BATCH_DOCUMENTS
    batches.BATCH_DOCUMENTS = 1
    try:
        with tempfile.TemporaryDirectory() as folder, walk:
            prepare(Path(folder), documents, steps)
    finally:
        batches.BATCH_DOCUMENTS = before
    return walk


def walk_step() -> Walk:
    """From `Loader.batch` to bytes."""
    with tempfile.TemporaryDirectory() as folder:
        store = gristmill.open(prepare(Path(folder), 3, Steps((), ())) / "train")
        loader = gristmill.Loader(gristmill.Plan(sources={"web": store}, seq_len=32, batch_size=2, seed=0))
        loader.batch(0)
        with Walk() as walk:
            loader.batch(1)
    return walk


def entered_twice(steps: Steps) -> dict[str, int]:
    """How often a job enters a room for one more batch, where that is more than once."""
    two, three = (walk_document(steps, count).entries for count in (2, 3))
    more = {f"{job} -> {room}": count - two[job, room] for (job, room), count in three.items()}
    return {name: count for name, count in more.items() if count > 1}


def figures() -> dict[str, Any]:
    """All of the walk, as a JSON value."""
    document, step = walk_document(Steps()), walk_step()
    said: dict[str, Any] = {}
    for name, walk in (("document", document), ("step", step)):
        said[f"{name}: functions"] = len(walk.functions)
        said[f"{name}: modules"] = len(walk.modules)
        said[f"{name}: crossings"] = len(walk.crossings)
        said[f"{name}: calls across"] = walk.crossings.total()
    twice = entered_twice(Steps(dedup=("exact", "lines", "near")))
    said["batch: rooms entered twice"] = len(twice)
    said["batch: entries of those"] = sum(twice.values())
    said["crossings"] = {name: [f"{count} x {a} -> {b}" for (a, b), count in walk.crossings.items()]
                         for name, walk in (("document", document), ("step", step))}  # fmt: skip
    said["entered twice"] = twice
    return said


def figures_of(commit: str) -> dict[str, Any]:
    """The same of a commit, by this script in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source = str(tree_of(commit, folder) / "src")
        command, paths = [sys.executable, __file__, "--json"], {"PYTHONPATH": source}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **paths})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="walk through this commit too")
    parser.add_argument("--list", action="store_true", help="print every crossing")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")
    chosen = parser.parse_args()
    here = figures()
    if chosen.json:
        print(json.dumps(here))
        return
    columns = [*([figures_of(chosen.against)] if chosen.against else []), here]
    print(f"{'':30}" + "".join(f"{head:>12}" for head in [*([chosen.against] if chosen.against else []), "this tree"]))
    for name in (name for name, value in here.items() if isinstance(value, int)):
        print(f"{name:30}" + "".join(f"{column[name]:12,}" for column in columns))
    for name, count in here["entered twice"].items():
        print(f"a batch enters {count} times: {name}")
    for name, places in here["crossings"].items() if chosen.list else ():
        print(f"\n{name}", *places, sep="\n  ")


if __name__ == "__main__":
    main()
