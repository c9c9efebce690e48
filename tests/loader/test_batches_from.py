"""Every n-th batch of a plan, built in groups: what a worker process of a DataLoader serves."""

import pytest

import gristmill as gm
from gristmill.loader import batch as batches
from gristmill.testing import assert_equal_batches, random_documents, served_steps, tiny_store

KEYS = ("labels", "doc_ids", "position_ids")
OPTIONS = {
    "plain": gm.PlanOptions(),
    "skips": gm.PlanOptions(skip=[gm.Skip(from_step=3, to_step=5), gm.Skip(from_step=20, to_step=31)]),
    "phases": gm.PlanOptions(phases=[gm.Phase(from_step=9, batch_size=12), gm.Phase(from_step=33, batch_size=4)]),
    "pad": gm.PlanOptions(cut="pad"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("strides"), random_documents(300), shards=3)


def make_plan(store, **changes):
    return gm.Plan({"web": store}, **{"seq_len": 16, "batch_size": 8, "seed": 3, "steps": 50, **changes})


def assert_serves(plan, every, keys=KEYS, world_size=2):
    """All workers together serve every step once, each what random access gives."""
    loader, served = gm.Loader(plan, 1, world_size, keys=keys, threads=0), served_steps(plan)
    for worker in range(every):
        found = list(loader.batches_from(served[worker], every))
        assert [step for step, _ in found] == served[worker::every]
        for step, batch in found:
            assert_equal_batches(batch, loader.batch(step), f"step {step} of every {every}")


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_workers_serve_each_step_once_as_random_access_does(store, options, every):
    assert_serves(make_plan(store, options=options), every)


def test_documents_that_had_to_be_merged_are_the_same(store):
    assert_serves(make_plan(store), 3, keys=(*KEYS, "cu_seqlens"))


def test_a_short_last_batch_falls_to_one_worker(store):
    plan = make_plan(store, steps=None, batch_size=64, options=gm.PlanOptions(shuffle=False, drop_last=False))
    assert plan.samples(plan.total_steps - 1).shape[0] < 64
    for every in (2, 3):
        assert_serves(plan, every)


def test_batches_so_large_that_each_step_is_ordered_alone(store):
    assert_serves(make_plan(store, batch_size=4096, steps=5), 3, keys=())


def test_a_document_is_excluded_from_its_step_on_within_a_stack(store):
    document = make_plan(store, options=gm.PlanOptions(shuffle=False)).trace(6)[0].doc_id
    exclude = [gm.Exclude(document, from_step=from_step) for from_step in (6, 7)]
    for each in exclude:
        plan = make_plan(store, options=gm.PlanOptions(shuffle=False, exclude=[each]))
        assert_serves(plan, 2)
        masks = [batch["loss_mask"].all() for _, batch in gm.Loader(plan, threads=0).batches_from(0)]
        assert masks[6] == (each.from_step == 7)


def test_an_iteration_counts_what_it_served_and_not_what_is_stacked(store):
    plan = make_plan(store, options=gm.PlanOptions(cut="pad"))
    loader, alone = gm.Loader(plan, keys=KEYS, threads=0), gm.Loader(plan, keys=KEYS, threads=0)
    for served, _ in enumerate(loader, start=1):
        padded = sum(int((alone.batch(step)["doc_ids"] == -1).sum()) for step in range(served))
        stats = loader.stats()
        assert (stats["tokens"], stats["padded_tokens"]) == (served * 8 * 16, padded)
        if served == 20:
            break


def test_small_batches_share_memory_up_to_a_bound(store, monkeypatch):
    def pieces_of_memory():
        found = [batch["input_ids"] for _, batch in gm.Loader(make_plan(store), threads=0).batches_from(0)]
        return len({id(ids.base) for ids in found})

    assert pieces_of_memory() == 5 + 3  # groups of 1, 2, 4, 8, 16 and 19 = 16 + 2 + 1 steps
    monkeypatch.setattr(batches, "_STACK_BYTES", 5 * 8 * 16 * 8)
    assert pieces_of_memory() == 1 + 1 + 1 + 2 + 4 + 6
    monkeypatch.setattr(batches, "_STACK_BYTES", 1)
    assert pieces_of_memory() == 50


@pytest.mark.parametrize("threads", [0, 2])
def test_closing_inside_the_loop_loses_nothing(store, threads):
    loader = gm.Loader(make_plan(store), threads=threads)
    steps = []
    for _ in loader:
        steps.append(loader.step - 1)
        if len(steps) in (1, 7, 20):
            loader.close()
    assert steps == list(range(50))
