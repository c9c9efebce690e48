"""An environment as a user has it: our wheel and what it depends on, without extras, and no checkout in sight.

It is kept in `.venv-bare` and made anew when the dependencies change; the wheel is built and installed whenever a file
of the package has changed. Workers of one test run share it, and the folder in which the README's commands were run.

What the wheel says that it depends on is taken from this environment, where pip has put it under the same constraints:
to unpack it once more took a minute of processor time. So is machine code of the very same sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-bare"


@dataclass(frozen=True)
class Bare:
    """The environment; `run` is a command in it."""

    bin: Path

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """Run a command in a folder and check how it ends; everything that it printed."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(command, cwd=cwd, env={**outside(), "PATH": path}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def run_blocks(self, document: Path, cwd: Path) -> None:
        """The commands of a document as they stand, in order, and then its Python code as one program."""
        for line, code in blocks(document, "sh"):
            print(self.run("bash", "-euo", "pipefail", "-c", code, cwd=cwd), f"({document.name}, line {line})")
        program = "\n".join(code for _, code in blocks(document, "python"))
        if program and not needs_extra(program):
            self.run("python", "-c", program, cwd=cwd)


def outside() -> dict[str, str]:
    """The variables of this process, without those that lead to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def blocks(document: Path, kind: str) -> list[tuple[int, str]]:
    """The (line, code) of every block of a kind, but for ```sh install, which was done here, and ```sh torch."""
    text = document.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{kind}(?: (?!install|torch)[^\n]*)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def needs_extra(program: str) -> bool:
    """Whether code speaks to a training stack: it is run in the full environment, by tests/test_surface.py."""
    return bool(re.search(r"gristmill\.adapters|^import torch|^from torch", program, re.MULTILINE))


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(*paths: Path) -> str:
    """Names the content of files and of folders of sources."""
    state = hashlib.sha256()
    for file in sorted(file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])):
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file):
            state.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return state.hexdigest()


def install() -> None:
    """Build the wheel from a copy, so that nothing of an earlier build gets into it, and install it alone."""
    with tempfile.TemporaryDirectory(prefix="gristmill-wheel-") as folder:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        unbuilt = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", Path(folder, "src"), ignore=unbuilt)
        _pip("wheel", "--no-deps", "--wheel-dir", f"{folder}/wheels", folder)
        (wheel,) = Path(folder, "wheels").iterdir()
        _pip("install", "--no-deps", "--force-reinstall", str(wheel))
    for kept in (ROOT / "src").rglob("*.kept"):
        shutil.copy(kept, packages(HOME) / kept.relative_to(ROOT / "src"))


def _pip(*arguments: str) -> None:
    """This environment's pip, which works in the other one."""
    command = [sys.executable, "-m", "pip", "--python", HOME / "bin" / "python", "--quiet", *arguments]
    subprocess.run([*command, "--disable-pip-version-check"], env=outside(), check=True)


def packages(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))


def copy_needed() -> None:
    """Give the environment every package that ours needs without extras, and those that these need."""
    waiting, found = ["gristmill"], set[str]()
    while waiting:
        name = waiting.pop()
        said = map(Requirement, metadata.requires(name) or ())
        needed = {need.name for need in said if need.marker is None or need.marker.evaluate({"extra": ""})}
        waiting += needed - found
        found |= needed
    for name in found:
        package = metadata.distribution(name)
        for file in package.files or ():
            if ".." not in file.parts:  # no commands
                place = packages(HOME) / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(package.locate_file(file)), place)


def stamped(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture(scope="session")
def bare() -> Bare:
    """The bare environment with the package as it is now."""
    needs, content = digest(ROOT / "pyproject.toml", ROOT / "constraints.txt"), digest(ROOT / "src")
    with alone(ROOT / ".venv-bare.lock"):
        if stamped(HOME / "needs") != needs:
            shutil.rmtree(HOME, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", HOME], check=True)
            copy_needed()
            (HOME / "needs").write_text(needs)
        if stamped(HOME / "content") != content:
            install()
            _pip("check")
            (HOME / "content").write_text(content)
    return Bare(HOME / "bin")


@pytest.fixture(scope="session")
def shop(bare: Bare, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all of the README has been done; the other documents go on from there. To be copied."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "readme"
    with alone(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            bare.run_blocks(ROOT / "README.md", folder)
            (folder / "done").touch()
    return folder
