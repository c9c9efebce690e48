"""Accelerate's save_state and load_state with our loader registered: exact, and from 2 processes to 1 and back.

This file is the script of the two processes too: `test_accelerate.py STORE FROM_TWO FROM_ONE`.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional

import gristmill as gm
from gristmill.adapters.passes import PassLoader, extended
from gristmill.testing import EOS, random_documents, tiny_store

PASS, BATCHES, STOP = 6, 15, 8

torch.set_num_threads(1)


def make_plan(folder, seed=1):
    store = gm.open(sorted(folder.glob("*.bin")), dtype="uint16", eos=EOS)
    return gm.Plan({"web": store}, seq_len=16, batch_size=4, seed=seed, steps=PASS)


def train(plan, batches, save=None, resume=None, threads=0):
    """[sample ids, loss] of each batch up to number `batches`; the state after batch number STOP goes to `save`."""
    set_seed(3)
    accelerator = Accelerator(cpu=True)
    bigrams = torch.nn.Sequential(torch.nn.Embedding(EOS + 1, EOS + 1), torch.nn.Dropout(0.1))
    model, optimizer = accelerator.prepare(bigrams, torch.optim.AdamW(bigrams.parameters(), 1e-2))
    loader = PassLoader(plan, device=accelerator.device, keys=("labels",), threads=threads)
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(str(resume))
    seen = []
    while loader.served < batches:
        for batch in loader:
            loss = functional.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            seen.append([batch["sample_ids"].tolist(), loss.item()])
            if loader.served == STOP and save:
                accelerator.save_state(str(save))
            if loader.served == batches:
                break
    return seen


def in_two_processes(store, from_two, from_one):
    """One rank of two: a run from the start that saves, and one that goes on from what one process saved."""
    whole = train(make_plan(store), STOP, save=from_two)
    resumed = train(make_plan(store), BATCHES, resume=from_one)
    (from_two / f"rank{os.environ['RANK']}.json").write_text(json.dumps([whole, resumed]))


def expected_ids(plan, batches):
    loader = gm.Loader(extended(plan, batches), threads=0)
    return [loader.batch(step)["sample_ids"].tolist() for step in range(batches)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("accelerate")
    tiny_store(path, random_documents(120), shards=2)
    return path


def test_a_run_resumed_inside_its_second_pass_is_the_same_to_the_last_bit(folder, tmp_path):
    plan = make_plan(folder)
    whole = train(plan, BATCHES, save=tmp_path)
    assert [ids for ids, _ in whole] == expected_ids(plan, BATCHES)
    assert train(plan, BATCHES, resume=tmp_path, threads=2) == whole[STOP:]


def test_two_processes_go_on_as_one_and_one_as_two(folder, tmp_path, run_ranks):
    one, two = tmp_path / "one", tmp_path / "two"
    expected = expected_ids(make_plan(folder), BATCHES)
    whole = train(make_plan(folder), BATCHES, save=one)
    two.mkdir()
    run_ranks(2, __file__, folder, two, one)

    ranks = [json.loads((two / f"rank{rank}.json").read_text()) for rank in range(2)]
    for run, steps in ((0, range(STOP)), (1, range(STOP, BATCHES))):
        for step, (first, _), (second, _) in zip(steps, ranks[0][run], ranks[1][run], strict=True):
            assert [row for pair in zip(first, second, strict=True) for row in pair] == expected[step]
    resumed = train(make_plan(folder), BATCHES, resume=two)
    assert [ids for ids, _ in resumed] == [ids for ids, _ in whole[STOP:]]


def test_a_checkpoint_of_another_plan_is_refused(folder, tmp_path):
    train(make_plan(folder), STOP, save=tmp_path)
    with pytest.raises(gm.StateError, match=r"another plan: seed \(was 1, is 2\)"):
        train(make_plan(folder, seed=2), BATCHES, resume=tmp_path)


def test_a_world_size_that_does_not_divide_is_refused(folder):
    with pytest.raises(gm.ConfigError, match=r"batch_size 4.*3 ranks: make it a multiple of 3"):
        PassLoader(make_plan(folder), 0, 3)


if __name__ == "__main__":
    in_two_processes(*map(Path, sys.argv[1:]))
