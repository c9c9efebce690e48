"""One set of flags, and one way to resume, for all examples."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import gristmill as gm

FOLDER = Path(__file__).parents[2] / "examples"
Load = Callable[[str], ModuleType]


def names(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}


@pytest.fixture(scope="module")
def flags(load_example: Load) -> ModuleType:
    return load_example("flags")


def test_every_small_example_takes_its_flags_from_one_place() -> None:
    for path in FOLDER.glob("train_*.py"):
        if path.name != "train_gpt.py":
            assert "make_parser(__doc__, " in path.read_text() and "check_resume(" in path.read_text(), path.name


def test_the_large_one_has_the_same_flags_and_more(
    flags: ModuleType, load_example: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = flags.make_parser("", out_dir="runs")
    flags.add_store(shared)
    flags.add_evaluation(shared)
    example, made = load_example("train_gpt"), []
    monkeypatch.setattr(example.DashedParser, "parse_args", lambda parser, argv: made.append(parser) or exit())
    with pytest.raises(SystemExit):
        example.parse([])
    assert names(shared) <= names(made[0])


def test_underscores_are_dashes(flags: ModuleType) -> None:
    parser = flags.make_parser("", out_dir="runs")
    args = parser.parse_args(["--batch_size", "3", "--out_dir=a_b", "--n-embd", "8", "--stop_at", "1"])
    assert (args.batch_size, args.out_dir, args.n_embd, args.stop_at) == (3, Path("a_b"), 8, 1)


def test_a_run_is_begun_once_and_then_resumed(flags: ModuleType) -> None:
    parser = flags.make_parser("", out_dir="runs/x")
    begins, resumes = parser.parse_args([]), parser.parse_args(["--resume"])
    flags.check_resume(begins, has_checkpoint=False)
    flags.check_resume(resumes, has_checkpoint=True)
    with pytest.raises(gm.ConfigError, match="runs/x holds a run already: say --resume"):
        flags.check_resume(begins, has_checkpoint=True)
    with pytest.raises(gm.StateError, match="no checkpoint in runs/x"):
        flags.check_resume(resumes, has_checkpoint=False)
