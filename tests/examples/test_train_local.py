"""examples/train_local.py: stopped, resumed with other workers and ranks, and fed with the wrong things."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_local.py"
SMALL = ["--steps", "12", "--max_length", "16", "--batch_size", "4", "--n_embd", "16", "--n_layer", "1"]
SETTINGS = [*SMALL, "--vocab_size", "512", "--save_interval", "4", "--eval_batches", "2"]
Run = Callable[..., int]


@pytest.fixture(scope="module")
def example(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("train_local")


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """A real .npy of 9 batches a pass, whose stretches differ, so that each batch has a loss of its own."""
    rng = np.random.default_rng(0)
    tokens = (np.arange(600) // 12 * 8 + rng.integers(0, 8, 600)).astype(np.uint16)
    np.save(tmp_path / "train.npy", tokens)
    np.save(tmp_path / "val.npy", tokens[:100])
    return ["--train_data_path", str(tmp_path / "train.npy"), "--val_data_path", str(tmp_path / "val.npy")]


@pytest.fixture
def run(example: ModuleType, data: list[str]) -> Run:
    """Run the example in this process; its exit code."""

    def runs(folder: Path, *options: str) -> int:
        torch.set_num_threads(1)
        return int(example.main([*data, *SETTINGS, "--out_dir", str(folder), *options]))

    return runs


def losses(folder: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, (folder / "losses.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in lines]


def test_stopped_and_resumed_it_has_the_same_losses_to_the_last_bit(tmp_path: Path, run: Run) -> None:
    assert run(tmp_path / "whole") == 0
    expected = losses(tmp_path / "whole")
    assert [step for step, _ in expected] == list(range(1, 13)) and len({loss for _, loss in expected}) == 12
    assert run(tmp_path / "parts", "--stop_at", "5") == 0
    assert run(tmp_path / "parts", "--resume", "--stop-at", "10", "--num_workers", "2") == 0
    assert run(tmp_path / "parts", "--resume") == 0
    assert losses(tmp_path / "parts") == expected


def test_a_run_that_died_does_the_steps_after_its_checkpoint_again(tmp_path: Path, run: Run) -> None:
    assert run(tmp_path / "run", "--stop-at", "4") == 0
    with (tmp_path / "run" / "losses.jsonl").open("a") as file:
        file.write('{"step": 5, "loss": 1.0}\n')
    assert run(tmp_path / "run", "--resume") == 0
    assert [step for step, _ in losses(tmp_path / "run")] == list(range(1, 13))


def test_two_ranks_give_the_losses_of_one(
    tmp_path: Path, run: Run, run_ranks: Callable[..., str], data: list[str]
) -> None:
    assert run(tmp_path / "one") == 0
    printed = run_ranks(2, EXAMPLE, *data, *SETTINGS, "--out_dir", tmp_path / "two", "--stop_at", "5")
    assert "step 5: validation loss" in printed
    assert run(tmp_path / "two", "--resume") == 0
    found, expected = (dict(losses(tmp_path / name)) for name in ("two", "one"))
    assert found == pytest.approx(expected, rel=1e-4)


def test_it_evaluates_unless_told_not_to(tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "run", "--steps", "2") == 0
    assert "step 2: validation loss" in capsys.readouterr().out
    assert run(tmp_path / "none", "--steps", "2", "--eval_batches", "0") == 0
    assert "validation loss" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--vocab_size", "100"), "give a --vocab-size above that"),
        (("--max_length", "5000"), "too few for one sequence of 5,000"),
        (("--resume",), "no checkpoint in"),
        (("--train_data_path", "none-{0..1}.npy"), "names 2 files that are not there"),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert run(tmp_path / "run", *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and said in line
