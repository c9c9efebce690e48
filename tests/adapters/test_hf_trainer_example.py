"""examples/train_huggingface.py: 2 ranks stopped and resumed as 1 that accumulates are the run that never stopped."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gristmill.adapters.hf_trainer import CausalLMDataset

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_huggingface.py"
SMALL = ["--steps", "12", "--seq-len", "32", "--batch-size", "4", "--n-embd", "32", "--n-layer", "1"]


Run = Callable[..., None]


def data(store: Path, folder: Path) -> tuple[str, ...]:
    return "--dataset_dir", str(store), "--out-dir", str(folder)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The example in this process, which has imported all that it needs."""

    def run(store: Path, folder: Path, *options: str) -> None:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *data(store, folder), *SMALL, *options])
        monkeypatch.syspath_prepend(EXAMPLE.parent)  # as for every script: its own folder
        torch.set_num_threads(1)
        runpy.run_path(str(EXAMPLE), run_name="__main__")

    return run


def losses(folder: Path, step: int) -> list[float]:
    """Of each step up to this one, as the Trainer keeps them in its checkpoints."""
    state = json.loads((folder / f"checkpoint-{step}" / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


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
    expected = losses(whole, 12)
    assert len(expected) == 12 and len({f"{loss:.3f}" for loss in expected}) > 6

    # On 2 ranks gradients are summed in another order: equal but for the last digits.
    printed = run_ranks(2, EXAMPLE, *data(store, elastic), *SMALL, "--stop-at", "5")
    assert "step 5: validation loss" in printed
    assert losses(elastic, 5) == pytest.approx(expected[:5], rel=1e-3)
    printed = run_ranks(1, EXAMPLE, *data(store, elastic), *SMALL, "--grad-accum", "2", "--resume")
    assert "step 12: validation loss" in printed
    assert losses(elastic, 12) == pytest.approx(expected, rel=1e-3)


def test_what_cannot_be_trained_on_is_one_sentence(
    tmp_path: Path, store: Path, run_here: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_here(store, tmp_path / "run", "--grad-accum", "3")
    assert ended.value.code == 2
    assert "error: The plan has batches of 4 sequences from step 0 on, the Trainer makes 3" in capsys.readouterr().err


def test_evaluation_can_be_limited_or_left_out(
    tmp_path: Path, store: Path, run_here: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(store / "val")
    run_here(store, tmp_path / "without", "--steps", "2", "--eval-batches", "0")
    assert "validation loss" not in capsys.readouterr().out


def test_a_limited_evaluation_reads_the_first_batches(
    tmp_path: Path, store: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = CausalLMDataset.__getitems__

    def counted(data: CausalLMDataset, indices: Any) -> Any:
        seen.extend(indices if not data.plan.options.drop_last else [])
        return real(data, indices)

    monkeypatch.setattr(CausalLMDataset, "__getitems__", counted)
    run_here(store, tmp_path / "run", "--steps", "2", "--eval-batches", "1")
    assert sorted(seen) == [0, 1, 2, 3]


def test_a_folder_is_begun_once_and_then_resumed(
    tmp_path: Path, store: Path, run_here: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(store, tmp_path / "run", "--steps", "2", "--eval-batches", "0")
    for folder, options, said in (
        ("run", (), "holds a run already: say --resume"),
        ("none", ("--resume",), "no checkpoint in"),
    ):
        with pytest.raises(SystemExit) as ended:
            run_here(store, tmp_path / folder, *options)
        assert ended.value.code == 2 and said in capsys.readouterr().err
