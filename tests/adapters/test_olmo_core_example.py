"""examples/train_olmo_core.py: 2 ranks stopped and resumed as 1 are the run that never stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_olmo_core.py"
SMALL = ["--steps", "12", "--seq-len", "32", "--batch-size", "4", "--n-embd", "32", "--n-layer", "1"]


def command(store: Path, folder: Path, *options: str) -> list[str]:
    return [str(EXAMPLE), "--dataset_dir", str(store), "--out-dir", str(folder), *SMALL, *options]


def losses(folder: Path) -> dict[int, float]:
    """The loss of each step that is in the folder."""
    lines = (folder / "losses.jsonl").read_text().splitlines()
    return {line["step"]: line["loss"] for line in map(json.loads, lines)}


def loader_states(checkpoint: Path) -> list[dict[str, Any]]:
    """What each rank saved of its loader."""
    files = sorted((checkpoint / "train").glob("rank*.pt"))
    return [torch.load(file, weights_only=False)["data_loader"] for file in files]


def test_two_ranks_stopped_and_resumed_as_one_are_the_run_that_never_stopped(
    tmp_path: Path,
    make_store: Callable[..., Path],
    make_documents: Callable[..., list[list[int]]],
    run_ranks: Callable[..., str],
) -> None:
    # Ids of a document lie close together, so that each batch has a loss of its own.
    documents = [[token % 8 + 8 * i for token in d] for i, d in enumerate(make_documents(30, longest=80))]
    store = make_store(tmp_path / "store", documents, vocab=512, tokens_per_shard=500)
    whole, elastic = tmp_path / "whole", tmp_path / "elastic"
    run_ranks(1, *command(store, whole))
    expected = losses(whole)
    assert list(expected) == list(range(1, 13))
    assert len({f"{loss:.3f}" for loss in expected.values()}) > 6

    # On 2 ranks gradients are summed in another order: equal but for the last digits.
    run_ranks(2, *command(store, elastic, "--stop-at", "5"))
    assert losses(elastic) == pytest.approx({step: expected[step] for step in range(1, 6)}, rel=1e-5)
    first, second = loader_states(elastic / "step5")
    assert first == second and first["loader"]["step"] == 5

    run_ranks(1, *command(store, elastic, "--resume"))
    assert losses(elastic) == pytest.approx(expected, rel=1e-5)
    (last,) = loader_states(elastic / "step12")
    assert last["epoch"] == 2, "the run must go on over the end of a pass"
    assert [last] == loader_states(whole / "step12")
