"""torchdata's StatefulDataLoader: exact resume in the middle of a pass, and our own state out of its snapshots."""

import copy

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import gristmill as gm
from gristmill.adapters.torch import BatchDataset, SampleDataset, TorchLoader, state_from_snapshot
from gristmill.testing import random_documents, served_steps, tiny_store

WORKERS = (0, 1, 2, 4)
STEPS = 15
SKIPS = gm.PlanOptions(skip=[gm.Skip(from_step=4, to_step=6)])

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'set_vital' is deprecated")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("torchdata"), random_documents(300), shards=3)


@pytest.fixture(scope="module")
def plan(store):
    return make_plan(store)


@pytest.fixture(autouse=True, scope="module")
def _quick_ends():
    """torchdata waits this long (5 s by default) for each worker of a loader whose state was refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)
        yield


def make_plan(store, **changes):
    return gm.Plan(
        {"web": store}, **{"seq_len": 16, "batch_size": 8, "seed": 1, "steps": STEPS, "options": SKIPS, **changes}
    )


def make_loader(plan, num_workers, rank=0, world_size=1, **options):
    dataset = BatchDataset(plan, rank, world_size)
    return StatefulDataLoader(dataset, batch_size=None, num_workers=num_workers, **options)


def ids(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


def expected_ids(plan, rank=0, world_size=1):
    loader = gm.Loader(plan, rank, world_size, threads=0)
    return ids(loader.batch(step) for step in served_steps(plan))


def snapshots(loader):
    """What the loader gives, and its snapshots before the first batch and after each."""
    taken, found = [copy.deepcopy(loader.state_dict())], []
    for batch in loader:
        found.append(batch)
        taken.append(copy.deepcopy(loader.state_dict()))
    return ids(found), taken


@pytest.mark.parametrize("num_workers", WORKERS)
def test_a_snapshot_resumes_exactly_in_the_middle_of_a_pass(plan, num_workers):
    expected = expected_ids(plan)
    found, taken = snapshots(make_loader(plan, num_workers))
    assert found == expected
    for batches in (0, 1, 3, 6, len(expected) - 1):
        resumed = make_loader(plan, num_workers)
        resumed.load_state_dict(taken[batches])
        assert ids(resumed) == expected[batches:], f"after {batches} batches"
    assert ids(resumed) == expected, "the next pass is a whole one"


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("every", [1, 4])
def test_our_state_out_of_any_snapshot_is_that_of_a_loader_at_the_same_place(plan, num_workers, every):
    _, taken = snapshots(make_loader(plan, num_workers, snapshot_every_n_steps=every))
    loader = gm.Loader(plan, threads=0)
    assert state_from_snapshot(plan, taken[0]) == loader.state_dict()
    for snapshot, _ in zip(taken[1:], loader, strict=True):
        assert state_from_snapshot(plan, snapshot) == loader.state_dict()


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 1), (0, 2), (2, 0)])
def test_our_state_resumes_on_another_number_of_workers_and_of_ranks(plan, before, after):
    first = make_loader(plan, before, rank=1, world_size=2)
    iterator = iter(first)
    for _ in range(5):
        next(iterator)
    state = state_from_snapshot(plan, first.state_dict())
    resumed = make_loader(plan, after)
    resumed.dataset.resume(state)
    assert ids(resumed) == expected_ids(plan)[5:]
    ours = TorchLoader(plan, 3, 4)
    ours.load_state_dict(state)
    assert ids(ours) == expected_ids(plan, 3, 4)[5:]


def test_a_resumed_dataset_is_snapshotted_and_resumed_again(plan):
    dataset = BatchDataset(plan)
    dataset.resume(dataset.state_after(3))
    found, taken = snapshots(StatefulDataLoader(dataset, batch_size=None, num_workers=2))
    assert found == expected_ids(plan)[3:]
    resumed = make_loader(plan, 2)
    resumed.load_state_dict(taken[4])
    assert ids(resumed) == expected_ids(plan)[7:]


def test_persistent_workers_start_each_pass_at_the_beginning(plan):
    loader = make_loader(plan, 2, persistent_workers=True)
    expected = expected_ids(plan)
    assert ids(loader) == ids(loader) == expected


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (1, 2)])
def test_another_number_of_workers_is_refused_with_what_to_do(plan, before, after):
    first = make_loader(plan, before)
    next(iter(first))
    second = make_loader(plan, after)
    second.load_state_dict(first.state_dict())
    with pytest.raises(gm.StateError, match=f"taken with {before} workers(.|\n)*with {after}: call dataset.resume"):
        next(iter(second))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_snapshot_of_another_plan_is_refused(store, plan, num_workers):
    first = make_loader(make_plan(store, seed=2), num_workers)
    next(iter(first))
    second = make_loader(plan, num_workers)
    second.load_state_dict(first.state_dict())
    with pytest.raises(gm.StateError, match="seed"):
        next(iter(second))
    with pytest.raises(gm.StateError, match="seed"):
        state_from_snapshot(plan, first.state_dict())


def test_what_is_no_snapshot_of_ours_is_refused(plan):
    others = StatefulDataLoader(list(range(10)), num_workers=0)
    next(iter(others))
    for snapshot in ({}, others.state_dict(), gm.Loader(plan).state_dict()):
        with pytest.raises(gm.StateError, match="no snapshot of a StatefulDataLoader"):
            state_from_snapshot(plan, snapshot)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_of_a_sample_dataset_resume_with_the_sampler(plan, num_workers):
    def make():
        return StatefulDataLoader(SampleDataset(plan), batch_size=8, num_workers=num_workers)

    first = make()
    iterator = iter(first)
    for _ in range(4):
        next(iterator)
    resumed = make()
    resumed.load_state_dict(first.state_dict())
    assert ids(resumed) == expected_ids(plan)[4:]
