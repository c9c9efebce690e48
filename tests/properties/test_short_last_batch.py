"""With drop_last=False the last batch is short: every rank still gets its rows of it, be they none."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.testing import EOS, assert_resumes_anywhere, assert_same_on_any_world, tiny_store

_folder = tempfile.TemporaryDirectory(prefix="gristmill-test-")
CUTS = ("chunk", "pack", "pad", "window")
LENGTHS = (17, 3, 9, 5, 6, 2, 30, 8, 11)
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")
PADDING = {
    "input_ids": EOS, "labels": -100, "loss_mask": False, "doc_ids": -1, "sample_ids": -1
}  # fmt: skip


@pytest.fixture(scope="module")
def stores(make_store):
    """By number of documents, as bare files and as compressed stores."""
    made = {}
    for count in (1, 2, 5, 9):
        documents = [[number] * length for number, length in enumerate(LENGTHS[:count])]
        made[count, "none"] = tiny_store(Path(_folder.name) / f"bare-{count}", documents, shards=1)
        root = make_store(Path(_folder.name) / f"zstd-{count}", documents, vocab=EOS + 1, compression="zstd")
        made[count, "zstd"] = gm.open(root)
    for store in made.values():
        gm.index(store, seq_len=16)
    return made


def one_pass(store, cut, batch_size, **options):
    """A plan for validation."""
    shuffle = options.pop("shuffle", False)
    made = gm.PlanOptions(cut=cut, shuffle=shuffle, drop_last=False, **options)
    return gm.Plan({"val": store}, seq_len=16, batch_size=batch_size, options=made)


@pytest.fixture
def few(stores):
    """Nine documents in bins of 16: fewer rows than ranks in the last batch."""
    return stores[9, "none"]


def test_ranks_without_a_row_of_the_last_batch_get_padding(stores):
    plan = one_pass(stores[5, "none"], "pack", 4)
    left = plan.segments[0].lanes[0].order.samples % 4
    assert left in (1, 2, 3), "the case of the issue: the last batch has rows for some ranks only"
    for rank in range(4):
        last = list(gm.Loader(plan, rank, 4, keys=KEYS))[-1]
        assert last["input_ids"].shape == (1, 16)
        if rank >= left:
            assert all((last[key] == value).all() for key, value in PADDING.items())


@given(
    documents=st.sampled_from((1, 2, 5, 9)), compression=st.sampled_from(("none", "zstd")), cut=st.sampled_from(CUTS),
    batch_size=st.sampled_from((1, 2, 4, 8, 24)), shuffle=st.booleans(), threads=st.sampled_from((0, 2)),
    data=st.data(),
)  # fmt: skip
def test_every_world_size_gives_the_rows_of_one_pass(
    stores, documents, compression, cut, batch_size, shuffle, threads, data
):
    store = stores[documents, compression]
    plan = one_pass(store, cut, batch_size, shuffle=shuffle)
    world_size = data.draw(st.sampled_from([w for w in range(1, batch_size + 1) if batch_size % w == 0]))
    assert_same_on_any_world(plan, (world_size,), (threads,), keys=KEYS)
    assert_resumes_anywhere(plan, world_size=world_size)
    rows = np.concatenate([batch["sample_ids"] for batch in gm.Loader(plan, threads=threads)])
    samples = plan.segments[0].lanes[0].order.samples
    assert sorted(rows[:samples, 2].tolist()) == list(range(samples)), "each sample once, then padding"
    assert (rows[samples:] == -1).all()


@pytest.mark.parametrize("cut", CUTS)
def test_a_pass_that_ends_in_a_later_epoch_keeps_its_rows(few, cut):
    phase = gm.Phase(1, seq_len=8, restart=True)
    gm.index(few, seq_len=8)
    plan = one_pass(few, cut, 4, phases=[phase])
    last = plan.segments[-1]
    assert last.lanes[0].epoch == 1
    served = np.concatenate([plan.samples(step) for step in range(1, plan.total_steps)])
    assert len(served) == last.lanes[0].order.samples and set(served[:, 1].tolist()) == {1}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("workers", [0, 1])
def test_adapters_give_padding_to_ranks_without_a_row(few, cut, workers):
    from torch.utils.data import DataLoader

    from gristmill.adapters.torch import BatchDataset, TorchLoader

    plan = one_pass(few, cut, 24)
    for rank in (0, 23):
        expected = list(gm.Loader(plan, rank, 24, keys=("labels",)))
        dataset = BatchDataset(plan, rank, 24, keys=("labels",))
        batches = DataLoader(dataset, batch_size=None, num_workers=workers)
        for found in (list(TorchLoader(plan, rank, 24, keys=("labels",))), list(batches)):
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                assert all(np.array_equal(a[key].numpy(), b[key]) for key in b)
