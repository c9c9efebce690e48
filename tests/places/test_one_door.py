"""No room but `places` opens, looks for or lists files of users and stores: what reads one place reads them all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gristmill

ROOT = Path(gristmill.__file__).parent
# Rooms whose files may lie anywhere. Engines have scratch files of this machine, and so does dedup's index.
ROOMS = ("store", "order", "loader", "sources", "tokenize", "show", "figures", "arrow", "stages", "frames")
# They write what they show.
SHOWS = ("demo.py", "testing.py")

# Where a file is none of a user's or a store's.
EXCEPTIONS = {
    "cli_report.py": {"open"},  # a browser
    "mixing.py": {"mkdir", "open", "exists"},  # documents in memory, in such a folder; a hint for who lists paths
    "stages/warming.py": {"rglob"},  # the code of this package
    "tokenize/tokenizer.py": {"open"},  # what the kernel says of this process
    "tokenize/encodings.py": {"read_bytes"},  # the vocabulary that this package brings along
}

OS = {"open", "stat", "lstat", "pread", "listdir", "scandir", "walk", "replace", "rename", "remove", "unlink", "link",
      "symlink", "makedirs", "mkdir", "rmdir", "readlink", "access", "truncate"}  # fmt: skip
OS_PATH = {"exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "realpath", "samefile"}
METHODS = {"read_bytes", "read_text", "write_bytes", "write_text", "is_dir", "is_symlink", "glob", "rglob", "iterdir",
           "stat", "lstat", "unlink", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to", "resolve", "memmap",
           "fromfile", "tofile", "memory_map", "OSFile", "mmap", "iglob"}  # fmt: skip
# Of a path these open files; of a place they are the door itself.
SHARED = {"open", "exists", "is_file"}
MODULES = {"shutil", "filecmp"}


def opened(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of whatever touches files without the door."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, "open"
        elif isinstance(node, ast.Attribute) and touches(ast.unparse(node.value), node.attr):
            yield node.lineno, node.attr


def touches(owner: str, name: str) -> bool:
    if owner == "os":
        return name in OS
    if owner == "os.path":
        return name in OS_PATH
    if owner in ("np", "numpy") and name in ("load", "save"):
        return True
    by_door = owner.startswith("place_at(") or owner == "place"
    return name in METHODS or (name in SHARED and not by_door)


def modules() -> list[str]:
    rooms = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    alone = (path for path in ROOT.glob("*.py") if path.name not in SHOWS)
    return sorted(path.relative_to(ROOT).as_posix() for path in (*rooms, *alone))


@pytest.mark.parametrize("module", modules())
def test_files_are_opened_by_the_door_alone(module: str) -> None:
    found = list(opened(ast.parse((ROOT / module).read_text())))
    assert [(line, name) for line, name in found if name not in EXCEPTIONS.get(module, ())] == []


def test_every_exception_is_needed() -> None:
    for module, names in EXCEPTIONS.items():
        assert names == {name for _, name in opened(ast.parse((ROOT / module).read_text()))}, module


@pytest.mark.parametrize(
    "code",
    ["open(path)", "path.read_bytes()", "os.stat(path)", "os.path.exists(path)", "path.exists()", "import shutil",
     "np.memmap(path)", "(root / 'a').open()", "np.load(path)", "pa.memory_map(path)"],
)  # fmt: skip
def test_ways_around_the_door_are_seen(code: str) -> None:
    assert list(opened(ast.parse(code)))


# What reads Parquet by Arrow's threads unless it is told not to; `read_table` lets some of them run on behind it.
THREADED = {"iter_batches", "read_row_group", "read_row_groups", "read_table"}


def threaded(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of whatever reads with threads bytes that Python owns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in THREADED:
            alone = any(word.arg == "use_threads" and ast.unparse(word.value) == "False" for word in node.keywords)
            if not alone or node.func.attr == "read_table":
                yield node.lineno, node.func.attr


@pytest.mark.parametrize("module", modules())
def test_no_thread_of_arrow_outlives_python_with_bytes_of_its(module: str) -> None:
    assert list(threaded(ast.parse((ROOT / module).read_text()))) == []


@pytest.mark.parametrize("code", ["pq.read_table(file, use_threads=False)", "file.iter_batches(100)"])
def test_reading_with_threads_is_seen(code: str) -> None:
    assert list(threaded(ast.parse(code)))
