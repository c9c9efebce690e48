"""No command deletes, replaces or follows what somebody else has put where it writes: it refuses before it begins."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.demo import demo
from gristmill.store.exchange import join
from gristmill.store.export import export_store
from gristmill.store.importing import import_store
from gristmill.store.verify import verify
from gristmill.tokenize.tokenizer import load_tokenizer

Run = Callable[..., Any]
NEAR = {"dedup": ["near"]}
GPT2 = {"eos": 50_256, "vocab_size": 50_257}


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Every name below a folder: a file's bytes, where a link points, nothing for folders."""
    return {
        path.relative_to(folder).as_posix(): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
        for path in sorted(folder.rglob("*"))
    }


def without_times(folder: Path) -> dict[str, bytes | str | None]:
    return {name: data for name, data in tree(folder).items() if name != "run.json"}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.jsonl"
    path.write_text("".join(json.dumps({"id": f"{i}", "text": f"Document number {i}."}) + "\n" for i in range(60)))
    return path


@pytest.fixture
def prepare(raw: Path) -> Run:
    """`prepare(out, overwrite=, work=, compression=...)`: some 1,300 byte tokens."""

    def prepared(out: Path, overwrite: bool = False, recipe: Any = None, **options: Any) -> None:
        run: Any = {name: str(options.pop(name)) for name in ("work", "save_index") if name in options}
        store: Any = {"tokens_per_shard": 300, "val_fraction": 0.1, **options}
        sources: Any = [{"name": "web", "paths": [str(raw)]}]
        made = gm.Recipe(str(out), sources, tokenizer="byte", store=store, **(recipe or {}))
        gm.prepare(made, overwrite=overwrite, options=gm.RunOptions(workers=1, **run))

    return prepared


@pytest.fixture
def commands(prepare: Run, tmp_path: Path, make_store: Run, make_bare: Run) -> dict[str, Run]:
    """Each command that fills a folder, as a function of that folder."""
    store = make_store(tmp_path / "given", val=[[1, 2], [3]])
    bare = make_bare(tmp_path / "bare.bin", [[1, 2], [3, 4, 5]])
    return {
        "prepare": prepare,
        "import": lambda out, overwrite=False: import_store(bare, out, dtype="uint16", overwrite=overwrite, **GPT2),
        "join": lambda out, overwrite=False: join([store], out, overwrite=overwrite),
        "export": lambda out, overwrite=False: export_store(store, "npy", out, overwrite=overwrite),
        "work": lambda out, overwrite=False: prepare(tmp_path / "new", overwrite, work=out),
        "save-index": lambda out, overwrite=False: prepare(tmp_path / "new", overwrite, NEAR, save_index=out),
    }


COMMANDS = ("prepare", "import", "join", "export", "work", "save-index")
PLACES = (
    "notes.txt", ".notes.tmp", ".lock", "manifest.json", "tokenizer.json", "gristmill-unfinished.json",
    "shard-00000.bin", "train-00000.npy", "train/shard-00000.tar", "train/shard-00000.bin", "train/.x.tmp",
    "val/shard-index.json", "val/pack-16.gmi", ".work/mine", "id/mine", "exact/exact.parquet", "index.json",
    "part-000000.keys.parquet", "deep/.x.123.tmp", "curate/",
)  # fmt: skip


def put(folder: Path, name: str) -> None:
    """A file of somebody (or an empty folder) at this place."""
    path = folder / name
    (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_text("mine")


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_with_a_file_of_others_is_refused_untouched(
    commands: dict[str, Run], tmp_path: Path, command: str, name: str
) -> None:
    out = tmp_path / "out"
    put(out, name)
    before = tree(out)
    for overwrite in (False, True):
        with pytest.raises(gm.ConfigError, match=r"folder"):
            commands[command](out, overwrite=overwrite)
        assert tree(out) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["notes.txt", "train/shard-00000.tar", "train/shard-00777.bin", "val/.x.tmp",
                                  "train/pack-16.gmi", ".work/exact/mine", "exported.npy", "more/"])  # fmt: skip
@pytest.mark.parametrize("command", ["prepare", "import", "join", "export"])
def test_what_others_put_into_a_finished_folder_survives_overwrite(
    commands: dict[str, Run], tmp_path: Path, command: str, name: str
) -> None:
    out = tmp_path / "out"
    commands[command](out)
    put(out, name)
    before = tree(out)
    with pytest.raises(gm.ConfigError, match=r"is no part of (a store|an export)"):
        commands[command](out, overwrite=True)
    assert tree(out) == before


@pytest.mark.parametrize(
    "name", ["notes.txt", "exact/notes.txt", "near/exact.parquet", "curate/mine.parquet", "shards/x", "mine/"]
)
def test_what_others_put_into_kept_work_survives(prepare: Run, tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    prepare(tmp_path / "out", work=work)
    put(work, name)
    before = tree(work)
    with pytest.raises(gm.ConfigError, match="is no part of a work folder"):
        prepare(tmp_path / "other", work=work, val_fraction=0.2)
    assert tree(work) == before and not (tmp_path / "other").exists()


def test_every_file_of_kept_work_is_known_to_the_next_run(prepare: Run, tmp_path: Path) -> None:
    evaluation = tmp_path / "evaluation.txt"
    evaluation.write_text("one two three four five six seven eight nine ten eleven twelve thirteen fourteen")
    every = {"dedup": [{"lines": {"min_chars": 5}}, "exact", "near"], "decontaminate": {"paths": [str(evaluation)]}}
    mix = {"weights": {"web": 1}, "target": 70}
    for number, more in enumerate(({}, {"shuffle": True}, {"mix": mix}, {})):
        index = tmp_path / f"index-{number}"
        prepare(tmp_path / f"{number}", False, {**every, **more}, work=tmp_path / "work", save_index=index)
        assert not verify(tmp_path / f"{number}").faults


@pytest.mark.parametrize("inner", ["work", "save_index"])
def test_folders_of_one_run_do_not_lie_in_each_other(prepare: Run, tmp_path: Path, inner: str) -> None:
    with pytest.raises(gm.ConfigError, match="lies in"):
        prepare(tmp_path / "out", False, NEAR, **{inner: tmp_path / "out" / "here"})
    with pytest.raises(gm.ConfigError, match="lies in"):
        prepare(tmp_path / "here" / "out", False, NEAR, **{inner: tmp_path / "here"})
    assert not (tmp_path / "out").exists() and not (tmp_path / "here").exists()


def test_the_demo_takes_no_folder_of_others(tmp_path: Path) -> None:
    put(tmp_path, "raw/topics/mine.txt")
    with pytest.raises(gm.ConfigError, match="is no part of a demo"):
        demo(str(tmp_path))
    assert [*tree(tmp_path)] == ["raw", "raw/topics", "raw/topics/mine.txt"]


# overwrite


@pytest.mark.parametrize("second", ["prepare", "import", "join"])
@pytest.mark.parametrize("first", ["compressed", "small shards", "packed", "prepare", "import", "join", "cut short"])
def test_after_overwrite_a_folder_equals_a_fresh_one(
    commands: dict[str, Run], prepare: Run, tmp_path: Path, first: str, second: str
) -> None:
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    before: dict[str, Run] = {
        "compressed": lambda out: prepare(out, compression="zstd"),
        "small shards": lambda out: prepare(out, tokens_per_shard=50),
        "packed": lambda out: (prepare(out), gm.index(gm.open(out / "train"), 16), gm.index(gm.open(out / "val"), 8)),
        "cut short": lambda out: (prepare(out), (out / "manifest.json").rename(out / ".." / "gone"),
                                  claimed(out, "prepare")),
        **commands,
    }  # fmt: skip
    before[first](out)
    commands[second](out, overwrite=True)
    commands[second](fresh)
    assert without_times(out).keys() == without_times(fresh).keys()
    assert {name: data for name, data in without_times(out).items() if second != "join" or name != "manifest.json"} == {
        name: data for name, data in without_times(fresh).items() if second != "join" or name != "manifest.json"
    }
    assert not verify(out).faults


def claimed(out: Path, command: str) -> None:
    """Leave the folder as a run that was killed after its shards."""
    from gristmill.places.folders import claim

    claim(out, {"making": "store", "command": command},
          [f"{path.parent.name}/{path.name}" for path in out.rglob("*.bin")])  # fmt: skip


def test_an_unfinished_run_of_another_command_is_not_taken_over_without_a_word(
    commands: dict[str, Run], prepare: Run, tmp_path: Path
) -> None:
    prepare(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    claimed(tmp_path / "out", "prepare")
    before = tree(tmp_path / "out")
    with pytest.raises(gm.ConfigError, match="holds an unfinished prepare"):
        commands["import"](tmp_path / "out")
    assert tree(tmp_path / "out") == before


def test_a_run_that_was_killed_after_its_manifest_is_finished_and_tidied_up(prepare: Run, tmp_path: Path) -> None:
    prepare(tmp_path / "out")
    before = tree(tmp_path / "out")
    claimed(tmp_path / "out", "prepare")
    put(tmp_path / "out", ".work/curate/00000000.json")
    with pytest.raises(gm.ConfigError, match="already holds a store"):
        prepare(tmp_path / "out")
    assert tree(tmp_path / "out") == before


# links


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lock_that_is_a_link_is_refused_and_its_target_untouched(
    commands: dict[str, Run], tmp_path: Path, command: str
) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(gm.ConfigError, match="symbolic link"):
        commands[command](tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "mine" and [*tree(tmp_path / "out")] == [".lock"]


def test_the_lock_of_an_index_that_is_a_link_is_refused(prepare: Run, tmp_path: Path) -> None:
    prepare(tmp_path / "out")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out" / "train" / ".pack-16.gmi.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(gm.ConfigError, match="symbolic link"):
        gm.index(gm.open(tmp_path / "out"), 16)
    assert (tmp_path / "precious").read_text() == "mine"


def test_force_does_not_replace_what_is_no_index(prepare: Run, tmp_path: Path) -> None:
    prepare(tmp_path / "out")
    (tmp_path / "out" / "train" / "pack-16.gmi").write_text("mine")
    with pytest.raises(gm.ConfigError, match="is no pack index"):
        gm.index(gm.open(tmp_path / "out"), 16, force=True)
    assert (tmp_path / "out" / "train" / "pack-16.gmi").read_text() == "mine"


def test_a_split_that_is_a_link_is_refused(prepare: Run, tmp_path: Path) -> None:
    prepare(tmp_path / "other")
    before = tree(tmp_path / "other")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train").symlink_to(tmp_path / "other" / "train")
    (tmp_path / "out" / "manifest.json").write_bytes((tmp_path / "other" / "manifest.json").read_bytes())
    with pytest.raises(gm.ConfigError, match="train is no part of a store"):
        prepare(tmp_path / "out", overwrite=True)
    assert tree(tmp_path / "other") == before


# code


class Payload:
    """What a hostile pickle holds: unpickling it writes a file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.write_text, (self.place, "ran")


@pytest.mark.parametrize("kept", [False, True])
def test_no_pickle_that_lies_in_a_folder_is_loaded(prepare: Run, tmp_path: Path, kept: bool) -> None:
    name = f"tokenizer-{load_tokenizer('byte').fingerprint}.pickle"
    work = tmp_path / "work" if kept else tmp_path / "out" / ".work"
    options = {"work": work} if kept else {}
    if kept:
        prepare(tmp_path / "first", **options)
    work.mkdir(parents=True, exist_ok=True)
    (work / name).write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    with pytest.raises(gm.ConfigError, match="is no part of"):
        prepare(tmp_path / "out", **options)
    assert not (tmp_path / "ran").exists() and (work / name).exists()


# killed

KILLED = """
import os, sys
from pathlib import Path
import gristmill as gm
from gristmill.store.export import export_store
from gristmill.store.importing import import_store

root, command, left = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
replace = os.replace

def dying(source, target):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    replace(source, target)

os.replace = dying
if command == "export":
    export_store(root / "given", "npy", root / "out")
elif command == "import":
    files = [root / "bare.bin", root / "more.bin"]
    import_store(files, root / "out", dtype="uint16", eos=50_256, vocab_size=50_257)
else:
    gm.index(gm.open(root / "out"), 16)
"""


@pytest.mark.parametrize(
    ("command", "renames"), [("export", 1), ("export", 2), ("import", 3), ("import", 8), ("index", 0)]
)
def test_killed_before_a_rename_it_leaves_a_sign_and_the_next_run_leaves_no_trace_of_it(
    tmp_path: Path, make_store: Run, make_bare: Run, command: str, renames: int
) -> None:
    given, out = make_store(tmp_path / "given", val=[[1, 2], [3]]), tmp_path / "out"
    files = [make_bare(tmp_path / f"{name}.bin", [[1, 2], [3, 4, 5]]) for name in ("bare", "more")]
    runs: dict[str, Run] = {
        "export": lambda out: export_store(given, "npy", out),
        "import": lambda out: import_store(files, out, dtype="uint16", **GPT2),
        "index": lambda out: gm.index(gm.open(out), 16),
    }
    for folder in (out, tmp_path / "whole"):
        if command == "index":
            make_store(folder, val=[[1, 2], [3]])
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, command, str(renames)], check=False)
    assert killed.returncode == 9 and any(name.endswith(".tmp") for name in tree(out))
    assert command == "index" or (out / "gristmill-unfinished.json").exists()
    runs[command](out)
    runs[command](tmp_path / "whole")
    assert tree(out) == tree(tmp_path / "whole")
