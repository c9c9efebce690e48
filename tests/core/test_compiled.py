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
from gristmill.core.compiled import _KeptCode

HELPER = """
from gristmill.core.compiled import leaf
from gristmill.numbers import SHIFT

@leaf
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
    for name in ("compiled.py", "hashing.py"):
        shutil.copy(real / "core" / name, root / "core" / name)
    texts = {"__init__.py": "", "core/__init__.py": "", "numbers.py": "SHIFT = 5\n", "helper.py": HELPER,
             "kernel.py": KERNEL}  # fmt: skip
    for name, text in texts.items():
        (root / name).write_text(text)
    return root


def ask(package: Path, **settings: Any) -> tuple[int, bool]:
    """What the kernel makes of 10 in a fresh process, and whether its machine code came from the disk."""
    command = [sys.executable, "-P", "-B", "-c", ASK]
    environment = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin", "HOME": "/dev/null"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, **settings)
    said = ran.stderr.splitlines()
    assert not said or "UserWarning: Compiled code cannot be kept" in said[0], ran.stderr
    answer = ran.stdout.split()
    return int(answer[0]), answer[1] == "1"


def replace(path: Path, old: str, new: str) -> None:
    """Change a file without changing its size, and set back its clock: only the content tells."""
    before = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_code_is_read_from_disk_until_a_source_changes(package: Path) -> None:
    assert ask(package) == (15, False)
    assert ask(package) == (15, True)
    replace(package / "numbers.py", "SHIFT = 5", "SHIFT = 7")
    assert ask(package) == (17, False)
    replace(package / "helper.py", "FACTOR = 1", "FACTOR = 2")
    assert ask(package) == (27, False)
    assert ask(package) == (27, True)


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


def test_kernels_run_uncompiled_for_a_debugger(package: Path) -> None:
    environment = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-P", "-B", "-c", "from gristmill.kernel import kernel; print(kernel(10))"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "15\n"


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_kept_code_that_was_cut_off_is_made_again_in_silence(package: Path, suffix: str) -> None:
    assert ask(package) == (15, False)
    for path in package.rglob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[:100])
    assert ask(package) == (15, False)
    assert ask(package) == (15, True)


def test_any_change_of_kept_code_is_found(tmp_path: Path) -> None:
    kept = _KeptCode(str(tmp_path), "kernel", "stamp")
    kept.save("key", b"machine code")
    assert kept.load("key") == b"machine code"
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
            assert kept.load("key") is None
        for other in (b"", data[:-1], data + b"x", data[16:]):
            path.write_bytes(other)
            assert kept.load("key") is None
        path.write_bytes(data)
    assert _KeptCode(str(tmp_path), "kernel", "another stamp").load("key") is None


def test_a_disk_that_takes_no_code_is_no_reason_to_stop(package: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    assert ask(package, preexec_fn=limit) == ask(package, preexec_fn=limit) == (15, False)


def test_without_a_folder_for_code_it_is_compiled_each_time_and_that_is_said(package: Path) -> None:
    (package / "__pycache__").write_text("a file where the folder would be")
    assert ask(package) == ask(package) == (15, False)
