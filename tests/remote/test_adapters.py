"""The frameworks' loaders on a store in a bucket: what they give is what they give from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import gristmill as gm
from gristmill.adapters.hf_trainer import CausalLMDataset
from gristmill.adapters.lightning import GristmillDataModule
from gristmill.adapters.olmo_core import GristmillDataLoader
from gristmill.adapters.torch import BatchDataset, SampleDataset, TorchLoader

STEPS = 12
Upload = Callable[[Path, str], str]


def lightning(plan: gm.Plan) -> Any:
    module = GristmillDataModule(plan, keys="labels")
    module.setup("fit")
    return module.train_dataloader()


def olmo_core(plan: gm.Plan) -> Any:
    loader = GristmillDataLoader(plan)
    loader.reshuffle(1)
    return loader


WAYS: dict[str, Callable[[gm.Plan], Any]] = {
    "torch": lambda plan: TorchLoader(plan, keys="labels"),
    "torch workers": lambda plan: DataLoader(BatchDataset(plan), batch_size=None, num_workers=2),
    "torch samples": lambda plan: DataLoader(SampleDataset(plan), batch_size=4, num_workers=2),
    "torchdata": lambda plan: StatefulDataLoader(BatchDataset(plan), batch_size=None, num_workers=2),
    "hugging face": lambda plan: DataLoader(CausalLMDataset(plan), batch_size=4),
    "lightning": lightning,
    "olmo-core": olmo_core,
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, make_store: Any, upload: Upload) -> tuple[Path, str]:
    """A store on disk, and its copy in the bucket."""
    here = make_store(tmp_path_factory.mktemp("adapted") / "s", [[i % 999 + 1] * 130 for i in range(60)])
    return here, upload(here, "adapted")


@pytest.fixture
def plans(stored: tuple[Path, str], proxy: Any) -> list[gm.Plan]:
    """One plan of both."""
    options = {"locality": {"block": 4, "window": 8}}
    return [gm.Plan(root, seq_len=32, batch_size=4, seed=3, steps=STEPS, options=options) for root in stored]


def tensors(batches: Iterator[Any]) -> list[dict[str, torch.Tensor]]:
    return [{key: value.clone() for key, value in batch.items() if torch.is_tensor(value)} for batch in batches]


@pytest.mark.filterwarnings("ignore")  # the frameworks' advice on workers and devices
@pytest.mark.parametrize("way", WAYS)
def test_a_frameworks_loader_gives_the_same_from_a_bucket(plans: list[gm.Plan], way: str) -> None:
    expected, found = (tensors(islice(WAYS[way](plan), STEPS)) for plan in plans)
    assert len(found) == STEPS and all("input_ids" in batch for batch in found)
    for ours, its in zip(expected, found, strict=True):
        assert ours.keys() == its.keys() and all(torch.equal(ours[key], its[key]) for key in ours)
