"""A value that an option cannot have is refused before anything is done, in one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.cli import build_parser

Command = Callable[..., Any]

PREPARE = ("prepare", "raw.txt", "--out", "out", "--tokenizer", "byte")
# Option, a value that it cannot have, and what the user reads.
CASES = [
    *((PREPARE, option, "0", "a whole number of 1 or more") for option in ("--pack", "--sample", "--workers")),
    *((PREPARE, option, "-1", "a whole number of 1 or more") for option in ("--pack", "--sample", "--workers")),
    (PREPARE, "--tokens-per-shard", "0", "a whole number of 1 or more"),
    (PREPARE, "--tokens-per-shard", "1e6", "a whole number of 1 or more"),
    (PREPARE, "--tokens-per-shard", "9" * 30, "a whole number of 1 or more"),
    (PREPARE, "--val-fraction", "-0.1", "from 0 to 1"),
    (PREPARE, "--val-fraction", "nan", "from 0 to 1"),
    (PREPARE, "--val-fraction", "1", "a share from 0 to below 1"),
    (PREPARE, "--eos", "-1", "of 0 or more"),
    (PREPARE, "--seed", "one", "a whole number, not 'one'"),
    (PREPARE, "--memory", "4", "256MB at least"),
    (PREPARE, "--memory", "-4GB", "--memory: expected one"),
    (PREPARE, "--memory", "", "is empty"),
    (PREPARE, "--work", "", "is empty"),
    (PREPARE, "--text-field", "", "is empty"),
    (PREPARE, "--id-field", "", "is empty"),
    (PREPARE, "--fields", "a,,b", "cannot be empty"),
    (PREPARE, "--fields", "a,a", "must be different"),
    (PREPARE, "--dedup", "exact,", "known: exact, lines, near"),
    (PREPARE, "--save-index", "index", "needs near dedup"),
    (("train-tokenizer", "raw.txt", "--out", "t.json"), "--vocab-size", "0", "of 1 or more"),
    (("train-tokenizer", "raw.txt", "--out", "t.json"), "--vocab-size", "3", "at least 257"),
    (("train-tokenizer", "raw.txt", "--out", "t.json"), "--limit", "0", "a size above 0"),
    (("train-tokenizer", "raw.txt", "--out", "t.json"), "--limit", "lots", "is a size such as"),
    (("inspect", "STORE"), "--eos", "-2", "of 0 or more"),
    (("inspect", "PLAN"), "--step", "-1", "of 0 or more"),
    (("inspect", "PLAN"), "--step", "11", "outside the plan"),
    (("inspect", "PLAN", "--doc", "d1"), "--until", "0", "of 1 or more"),
    (("inspect", "PLAN"), "--until", "-5", "of 1 or more"),
    (("inspect", "PLAN", "--out", "o"), "--exclude-step", "-1", "of 0 or more"),
    (("inspect", "PLAN", "--exclude-doc", "d1", "--out", "o"), "--from-step", "x", "of 0 or more"),
    (("ledger", "PLAN"), "--until", "0", "of 1 or more"),
    (("ledger", "PLAN"), "--until", "11", "past its end"),
    (("watch", "STORE"), "--seconds", "0", "from 0.01 to 86,400"),
    (("index", "STORE"), "--seq-len", "0", "of 1 or more"),
    (("index", "STORE"), "--eos", "-1", "of 0 or more"),
    (("import", "STORE/train/shard-00000.bin", "--out", "o", "--tokenizer", "byte"), "--eos", "-1", "of 0 or more"),
    (("simulate", "PLAN"), "--bandwidth", "quick", "--bandwidth is a speed such as 50MB/s"),
    (("simulate", "PLAN"), "--bandwidth", "0", "--bandwidth must be above 0"),
    (("simulate", "PLAN"), "--latency", "50mb", "--latency is a time such as 80ms"),
    (("simulate", "PLAN"), "--step-time", "soon", "--step-time is a time such as 80ms"),
    (("simulate", "PLAN"), "--requests-per-second", "0", "of 0.001 or more"),
    (("simulate", "PLAN"), "--ranks", "0", "of 1 or more"),
    (("simulate", "PLAN"), "--nodes", "3", "cannot be split over 3 ranks"),
    (("simulate", "PLAN"), "--cache", "some", "--cache is a size such as"),
    (("simulate", "PLAN"), "--steps", "11", "outside the plan"),
    (("simulate", "PLAN"), "--per-gb", "-1", "of 0 or more"),
    (("bench", "STORE"), "--seconds", "-1", "from 0.01 to 86,400"),
    (("bench", "STORE"), "--seconds", "0", "from 0.01 to 86,400"),
    (("bench", "STORE"), "--seconds", "inf", "from 0.01 to 86,400"),
    (("bench", "STORE"), "--seq-len", "0", "of 1 or more"),
    (("bench", "STORE"), "--batch-size", "-8", "of 1 or more"),
    (("bench", "STORE"), "--cut", "chop", "--cut 'chop' is not known"),
    (("bench", "STORE"), "--keys", "lables", "did you mean 'labels'"),
]


@pytest.mark.parametrize(
    ("command", "option", "value", "message"), CASES, ids=[f"{case[0][0]} {case[1]} {case[2][:8]}" for case in CASES]
)
def test_a_value_out_of_bounds_is_refused_before_work(
    call: Command, store: Path, plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...], option: str, value: str, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("raw.txt").write_text("A line of text.\n")
    words = [word.replace("STORE", str(store)).replace("PLAN", str(plan_file)) for word in command]
    ran = call(*words, option, value, code=2)
    assert message in ran.said and len(ran.said.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["raw.txt"]


def test_no_option_takes_a_number_without_bounds() -> None:
    (found,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in found.choices.items():
        for action in parser._actions:
            assert action.type not in (int, float), f"{name} {action.option_strings}"
