"""examples/train_lightning.py: 2 ranks stopped and resumed as 1 are the run that never stopped."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on loggers, intervals and folders
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_lightning.py"
SMALL = ["--steps", "12", "--seq-len", "32", "--batch-size", "4", "--n-embd", "32", "--n-layer", "1"]


Run = Callable[..., None]


def data(store: Path, folder: Path) -> tuple[str, ...]:
    return "--dataset_dir", str(store), "--out-dir", str(folder)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The example in this process, which has imported all that it needs."""
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")  # set by the example, and taken back afterwards

    def run(store: Path, folder: Path, *options: str) -> None:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *data(store, folder), *SMALL, *options])
        monkeypatch.syspath_prepend(EXAMPLE.parent)  # as for every script: its own folder
        torch.set_num_threads(1)
        runpy.run_path(str(EXAMPLE), run_name="__main__")

    return run


def losses(folder: Path) -> dict[int, float]:
    """The loss of each step."""
    lines = (folder / "losses.jsonl").read_text().splitlines()
    return {line["step"]: line["loss"] for line in map(json.loads, lines)}


@pytest.fixture
def store(tmp_path: Path, make_store: Callable[..., Path], make_documents: Callable[..., list[list[int]]]) -> Path:
    # Ids of a document lie close together, so that each batch has a loss of its own.
    documents = [[token % 8 + 8 * i for token in d] for i, d in enumerate(make_documents(30, longest=80))]
    return make_store(tmp_path / "store", documents, val=documents[:4], vocab=512, tokens_per_shard=500)


def test_two_ranks_stopped_and_resumed_as_one_are_the_run_that_never_stopped(
    tmp_path: Path, store: Path, run_here: Run, run_ranks: Callable[..., str]
) -> None:
    whole, elastic = tmp_path / "whole", tmp_path / "elastic"
    run_here(store, whole)
    expected = losses(whole)
    assert list(expected) == list(range(1, 13))
    assert len({f"{loss:.3f}" for loss in expected.values()}) > 6

    # On 2 ranks gradients are summed in another order: equal but for the last digits.
    printed = run_ranks(2, EXAMPLE, *data(store, elastic), *SMALL, "--stop-at", "5", "--devices", "2")
    assert "waited for data" in printed
    assert losses(elastic) == pytest.approx({step: expected[step] for step in range(1, 6)}, rel=1e-4)
    run_here(store, elastic, "--resume")
    assert losses(elastic) == pytest.approx(expected, rel=1e-4)


def test_what_cannot_be_trained_on_is_one_sentence(
    tmp_path: Path, store: Path, run_here: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_here(store, tmp_path / "run", "--batch-size", "1000")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: The source has ")


def test_a_folder_is_begun_once_and_evaluation_can_be_left_out(
    tmp_path: Path, store: Path, run_here: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(store / "val")
    run_here(store, tmp_path / "run", "--steps", "2", "--eval_batches", "0")
    with pytest.raises(SystemExit):
        run_here(store, tmp_path / "run", "--eval-batches", "0")
    assert "holds a run already: say --resume" in capsys.readouterr().err
