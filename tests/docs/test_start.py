"""docs/start.md, followed from its first command to its last: a model is trained, killed and resumed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A command or a program of the page, and the output below it, if that is to be compared."""

    kind: str
    code: str
    output: str

    def run(self, folder: Path) -> str:
        command = ["bash", "-euo", "pipefail", "-c"] if self.kind == "sh" else [sys.executable, "-c"]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [*command, self.code],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{self.code}\n{done.stdout}"
        return done.stdout


def blocks() -> list[Block]:
    found = re.finditer(
        r"^```(sh|python)(?! install)[^\n]*\n(.*?)^```\n(?:```text output\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE
    )
    return [Block(match[1], match[2], match[3] or "") for match in found]


def words(line: str) -> str:
    """A line without its numbers and its layout: other machines and versions count and time otherwise."""
    return " ".join(re.sub(r"\b[0-9a-f]{32}\b|\d[\d,.]*", "#", line).split())


def assert_printed(shown: str, printed: str) -> None:
    """What the page shows was printed, in this order; there may be more, as where dots stand on the page."""
    rest = iter([words(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        assert line == "..." or words(line) in rest, f"{line}\nis not in\n{printed}"


def test_every_command_works_as_it_stands_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    for block in blocks():
        assert_printed(block.output, block.run(tmp_path))
    assert (tmp_path / "whole" / "losses.txt").read_text() == (tmp_path / "run" / "losses.txt").read_text()


def test_it_begins_with_how_to_install_inside_and_outside_of_a_clone() -> None:
    install = PAGE.partition("\n## ")[2]
    assert install.startswith("Install") and install.index("Inside of a clone") < install.index("Outside of a clone")


def test_the_page_shows_what_its_commands_print() -> None:
    assert sum(bool(block.output) for block in blocks()) >= 7
