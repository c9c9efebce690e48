"""Locate, then fill: places first, without a token read; then stacks, between which nothing is held."""

import sys
from pydoc_data.topics import topics

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.batch import Assembler, Group, unstacked
from gristmill.testing import assert_equal_batches, random_documents, tiny_store

KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")


def group_of(plan, steps):
    samples = plan.samples_of_steps(steps.start, len(steps))
    return Group(steps, plan.segment(steps.start), samples, plan.batch_size)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    store = tiny_store(tmp_path_factory.mktemp("batch"), random_documents(300), shards=12)
    return gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=40)


def test_locating_names_every_token_that_filling_reads_and_maps_none(plan):
    assembler = Assembler(plan, ("labels",), None, buffer_bytes=1 << 20)
    located = assembler.locate(group_of(plan, range(8)))
    assert located.pieces.lengths.sum() == 8 * 4 * 16
    assert (located.reach - located.pieces.lengths == located.pieces.follows).all()
    assert not assembler._table.bins.addresses.any()
    list(assembler.fill(located))
    assert (np.flatnonzero(assembler._table.bins.addresses) == located.shards).all()


def test_what_was_located_may_be_filled_in_any_order_and_again(plan):
    assembler, loader = Assembler(plan, KEYS, None, buffer_bytes=1 << 20), gm.Loader(plan, keys=KEYS, threads=0)
    first, second = (assembler.locate(group_of(plan, steps)) for steps in (range(4), range(4, 8)))
    for located in (second, first, first):
        for stack in assembler.fill(located):
            for step, batch in zip(stack.steps, unstacked(stack.arrays), strict=True):
                assert_equal_batches(batch, loader.batch(step), f"step {step}")
            assert all(tally.tokens == 4 * 16 for tally in stack.tallies)


@pytest.mark.parametrize("cut", ["chunk", "pad"])
def test_any_part_of_what_was_located_is_filled_as_if_it_had_been_located_alone(plan, cut):
    options = gm.PlanOptions(cut=cut)
    plan = gm.Plan({"web": plan.sources[0].store}, seq_len=16, batch_size=4, steps=12, options=options)
    assembler = Assembler(plan, KEYS, None, buffer_bytes=1 << 20)
    whole = assembler.locate(group_of(plan, range(12)))
    for first, end in ((0, 5), (5, 6), (6, 12), (0, 12)):
        alone = assembler.fill(assembler.locate(group_of(plan, range(first, end))))
        for part, stack in zip(assembler.fill(whole, range(first, end)), alone, strict=True):
            assert part.steps == stack.steps and part.tallies == stack.tallies
            assert_equal_batches(part.arrays, stack.arrays, f"steps {part.steps}")


def test_no_map_is_leased_while_a_stack_is_in_hand(plan):
    assembler = Assembler(plan, KEYS, None, buffer_bytes=1 << 20, max_maps=3)
    for _ in assembler.fill(assembler.locate(group_of(plan, range(8)))):
        assert not assembler._table.bins._leases.any() and not assembler._table.documents.indices._leases.any()
        assert (assembler._table.bins.addresses != 0).sum() <= 3


def test_no_frame_is_leased_while_a_stack_is_in_hand(tmp_path, make_store):
    documents = [list(text.encode()) for text in topics.values()]
    root = make_store(tmp_path / "s", documents, vocab=257, tokens_per_shard=180_000, compression="zstd")
    plan = gm.Plan({"web": gm.open(root)}, seq_len=300, batch_size=8)
    assembler = Assembler(plan, (), None, buffer_bytes=1 << 20)
    for _ in assembler.fill(assembler.locate(group_of(plan, range(8)))):
        held = assembler._table._extents.frames._read
        # By the table, the loop and getrefcount alone.
        assert held and all(sys.getrefcount(frame) == 3 for frame in held.values())
