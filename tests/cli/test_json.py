"""`--json`: one JSON value alone on stdout, by every command; an error leaves stdout empty."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.cli import build_parser

Command = Callable[..., Any]

# The arguments of each command, and keys of its JSON; a list of rows is known by the keys of the first.
COMMANDS: dict[str, list[tuple[str, set[str]]]] = {
    "prepare": [("{raw} --out {new} --tokenizer byte --pack 16", {"path", "splits", "funnel", "seconds", "bytes_read"}),
                ("{raw} --out {new} --tokenizer byte --dry-run", {"sources", "steps", "estimate"})],
    "init": [("{new}", {"path"})],
    "train-tokenizer": [("{raw} --out {new} --vocab-size 300", {"path", "vocab_size", "documents", "seconds"})],
    "inspect": [("{store}", {"path", "splits", "funnel"}), ("{store}/val", {"path", "splits", "funnel"}),
                ("{store} --paths", {"train", "val"}),
                ("{store} --doc d7", {"number", "text"}), ("{plan}", {"fingerprint", "phases", "forecast"}),
                ("{plan} --step 3", {"row", "doc_id"}), ("{plan} --doc {seen}", {"step", "row"}),
                ("{run}", {"step", "tokens", "mix"}), ("{run} --step 3", {"step", "loss", "rows"}),
                ("{run} --spikes", {"spikes", "suspects", "window", "threshold"}),
                ("{run} --exclude-step 3 --out {new}", {"plan", "fingerprint", "checkpoints_up_to"}),
                ("{checkpoint} --plan {plan}", {"step", "digest"}), ("{bare} --dtype uint16", {"tokens", "dtype"})],
    "dropped": [("{store}", {"path", "documents", "groups"})],
    "view": [("{store} --no-browser", {"path", "address"})],
    "verify": [("{store}", {"shards", "faults", "seconds"})],
    "index": [("{copied}/train --seq-len 32", {"files"}), ("{bare} --dtype uint16 --eos 256", {"files", "seconds"})],
    "join": [("{store} --out {new}", {"path", "splits"})],
    "export": [("{store} --to npy --out {new}", {"format", "copied", "notes", "seconds"})],
    "import": [("{bare} --dtype uint16 --tokenizer byte --out {new}", {"documents", "linked", "seconds"})],
    "report": [("{store} --out {new}", {"report", "figures"}), ("{plan} --out {new}", {"report", "figures"}),
               ("{store} --vs {copied} --out {new}", {"report", "figures"}),
               ("{plan} --vs {plan} --out {new}", {"report", "figures"})],
    "simulate": [("{plan} --bandwidth 20MB/s --ranks 2", {"bytes", "requests", "stalled_share", "stretches"})],
    "ledger": [("{plan} --until 3", {"tokens", "documents", "sources", "domains", "licences"}),
               ("{run} --ids {ids}", {"asked", "known", "trained", "unknown", "documents"})],
    "watch": [("{run}", {"step", "tokens_per_second", "waited_share", "mix"})],
    "stream": [("{recipe} --steps 2 --seq-len 32 --batch-size 2 --examples 1",
                {"files", "rows", "funnel", "dropped", "tokens_per_second", "undone"})],
    "bench": [("{store} --seq-len 32 --batch-size 4 --seconds 0.05", {"threads", "tokens_per_second"})],
    "warm": [("--recipe {recipe}", {"compiled"})],
    "demo": [("", {"stores", "plan", "step", "resumed", "bench", "seconds"})],
}  # fmt: skip
CALLS = [(name, *call) for name, calls in COMMANDS.items() for call in calls]


def test_no_command_is_missing_here() -> None:
    (found,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert set(COMMANDS) == set(found.choices)


@pytest.mark.parametrize(
    ("name", "arguments", "keys"), CALLS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_prints_one_json_value_and_nothing_else(
    call: Command, store: Path, copied: Path, plan_file: Path, checkpoint: Path, bare: Path, recorded: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: str, keys: set[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("gristmill.view.server.Server.serve_forever", lambda _: None)  # which only a signal ends
    (tmp_path / "raw.txt").write_text("The mill grinds what it is given.\n" * 50)
    recipe = f"out: new\nsources: [{{name: a, paths: ['{tmp_path}/raw.txt']}}]\ntokenizer: byte\n"
    (tmp_path / "recipe.yaml").write_text(recipe)
    (tmp_path / "ids.txt").write_text("d7\nnobody\n")
    places = {"run": recorded, "ids": tmp_path / "ids.txt",
              "store": store, "copied": copied, "plan": plan_file, "checkpoint": checkpoint, "bare": bare,
              "raw": tmp_path / "raw.txt", "recipe": tmp_path / "recipe.yaml", "new": tmp_path / "new",
              "seen": gm.load_plan(plan_file).trace(3)[0].doc_id}  # fmt: skip
    value = call(name, *(word.format(**places) for word in arguments.split()), "--json").json
    assert keys <= set(value[0] if isinstance(value, list) else value)


@pytest.mark.parametrize("arguments", ["inspect none", "verify none", "prepare none --out o", "join none --out o"])
def test_an_error_leaves_stdout_empty(call: Command, arguments: str) -> None:
    assert not call(*arguments.split(), "--json", code=2).out
