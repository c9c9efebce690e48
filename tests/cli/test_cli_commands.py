"""The words and options of the commands are there at once; what a command does is imported when it runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "numba", "pyarrow", "duckdb", "rich", "tokenizers", "yaml")


def imported(code: str) -> set[str]:
    """Which of the heavy libraries a new process has after some code."""
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_help_of_all_commands_needs_no_library() -> None:
    assert imported("from gristmill.cli import build_parser; build_parser().format_help()") == set()


@pytest.mark.parametrize("module", ["cli_look", "cli_files"])
def test_commands_that_look_need_neither_compiler_nor_arrow_before_they_do(module: str) -> None:
    assert imported(f"import gristmill.{module}") <= {"numpy", "rich", "yaml"}


@pytest.mark.parametrize("module", ["cli_machine", "cli_prepare"])
def test_commands_that_make_stores_compile_nothing_before_they_do(module: str) -> None:
    assert imported(f"import gristmill.{module}") <= {"numpy", "rich", "yaml", "pyarrow"}
