"""Machine code on disk: used again, and made anew when any module that it came from has changed."""

from __future__ import annotations

import ast
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill

HELPER = """
from gristmill.core.compiled import compiled
from gristmill.numbers import SHIFT

@compiled
def shifted(x):
    return FACTOR * x + SHIFT

FACTOR = 1
"""
KERNEL = """
from numba import types
from gristmill.core.compiled import entry
from gristmill.helper import shifted

@entry(types.int64(types.int64))
def kernel(x):
    return shifted(x)
"""
ASK = """
from gristmill.kernel import kernel
print(kernel(10), sum(kernel.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of our name with the real decorators and one kernel, which leans on a helper and a constant."""
    root, real = tmp_path / "gristmill", Path(gristmill.__file__).parent
    (root / "core").mkdir(parents=True)
    for name in (
        "compiled.py",
        "cached.py",
        "lowering.py",
        "shortcuts.py",
        "wrapping.py",
        "kept_code.py",
        "kept_entries.py",
        "kept.py",
        "hashing.py",
        "errors.py",
        "locks.py",
    ):
        shutil.copy(real / "core" / name, root / "core" / name)
    texts = {"__init__.py": "", "core/__init__.py": "", "numbers.py": "SHIFT = 5\n", "helper.py": HELPER,
             "kernel.py": KERNEL}  # fmt: skip
    for name, text in texts.items():
        (root / name).write_text(text)
    return root


def asking(package: Path, environment: dict[str, str], **settings: Any) -> subprocess.Popen[str]:
    """A fresh process that tells what the kernel makes of 10, and whether its machine code came from the disk."""
    temporary = package.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    usual = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin", "HOME": "/dev/null", "TMPDIR": str(temporary)}
    return subprocess.Popen([sys.executable, "-P", "-B", "-c", ASK], env=usual | environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **settings)  # fmt: skip


def told(process: subprocess.Popen[str]) -> tuple[int, bool]:
    said, errors = process.communicate()
    assert process.returncode == 0 and not errors, errors
    return int(said.split()[0]), said.split()[1] == "1"


def ask(package: Path, environment: dict[str, str] | None = None, **settings: Any) -> tuple[int, bool]:
    return told(asking(package, environment or {}, **settings))


def unwritable(package: Path) -> None:
    """An install that takes no files, for root too."""
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "__pycache__").write_text("a file where the folder would be")


def code(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "kernel" in path.name and path.suffix != ".py"]


def replace(path: Path, old: str, new: str) -> None:
    """Change a file without changing its size, and set back its clock: only the content tells."""
    before = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_code_is_read_from_disk_until_a_source_changes(package: Path) -> None:
    assert ask(package) == (15, False)
    assert ask(package) == (15, True)
    replace(package / "numbers.py", "SHIFT = 5", "SHIFT = 7")
    assert ask(package) == (17, False)
    replace(package / "helper.py", "FACTOR = 1", "FACTOR = 2")
    assert ask(package) == (27, False)
    assert ask(package) == (27, True)
    assert len(code(package)) == 1, "code of old sources does not pile up"


def test_any_change_of_kept_code_is_found_and_it_is_made_again_in_silence(package: Path) -> None:
    assert ask(package) == (15, False)
    (path,) = code(package)
    data = path.read_bytes()
    for other in (b"", data[:100], data[:-1], data + b"x", data[:16] + b"x" + data[17:]):
        path.write_bytes(other)
        assert ask(package) == (15, False)
    assert ask(package) == (15, True)


def test_code_in_a_folder_that_can_only_be_read_is_used(package: Path) -> None:
    assert ask(package) == (15, False)
    assert ask(package, preexec_fn=no_room) == (15, True)


def test_a_disk_that_takes_no_code_is_no_reason_to_stop_and_that_is_said(package: Path) -> None:
    process = asking(package, {}, preexec_fn=no_room)
    said, errors = process.communicate()
    assert said.split() == ["15", "0"] and "Compiled code cannot be kept" in errors
    assert not code(package)


def test_code_goes_where_numba_was_told_to_keep_it(package: Path, tmp_path: Path) -> None:
    chosen = {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    assert [ask(package, chosen), ask(package, chosen)] == [(15, False), (15, True)]
    assert code(tmp_path / "chosen") and not code(package)


def test_code_of_an_install_that_is_read_only_goes_home(package: Path, tmp_path: Path) -> None:
    unwritable(package)
    home = {"HOME": str(tmp_path / "home")}
    assert [ask(package, home), ask(package, home)] == [(15, False), (15, True)]
    assert code(tmp_path / "home" / ".cache" / "gristmill")


def test_without_a_home_it_goes_among_temporary_files_in_a_folder_of_ones_own(package: Path, tmp_path: Path) -> None:
    unwritable(package)
    assert [ask(package), ask(package)] == [(15, False), (15, True)]
    (own,) = (tmp_path / "temporary").iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)  # somebody else may have put code there
    process = asking(package, {})
    said, errors = process.communicate()
    assert said.split() == ["15", "0"] and "Compiled code cannot be kept" in errors


def test_two_processes_may_compile_at_once(package: Path) -> None:
    both = [asking(package, {}) for _ in range(2)]
    assert [told(process)[0] for process in both] == [15, 15]
    assert ask(package) == (15, True)
    assert len(code(package)) == 1


def test_modules_whose_code_is_missing_are_known_without_importing_them(package: Path) -> None:
    looked = """
import sys
from gristmill.core.kept_entries import missing_code
print(missing_code(["gristmill.kernel", "gristmill.helper"]), {"gristmill.kernel", "numba"} & sys.modules.keys())
"""
    environment = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin", "HOME": "/dev/null"}

    def look() -> str:
        command = [sys.executable, "-P", "-B", "-c", looked]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert look() == "['gristmill.kernel'] set()\n"
    ask(package)
    assert look() == "[] set()\n"


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of all that a module of ours imports from us, at its top or not."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or ".", name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)


def test_no_kernel_is_made_of_a_module_that_its_stamp_does_not_see() -> None:
    """A stamp follows `from gristmill.module import name`: kernels import from each other in no other way."""
    root = Path(gristmill.__file__).parent
    kernels = [path for path in root.rglob("*.py") if "core.compiled import" in path.read_text()]
    assert len(kernels) > 20
    for path in kernels:
        for module, name in imports_of(path):
            if module.startswith((".", "gristmill")):
                source = root.parent.joinpath(*module.split("."))
                assert name and not (source / name).exists() and not (source / f"{name}.py").exists(), (path, module)
