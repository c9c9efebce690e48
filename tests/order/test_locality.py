"""The shuffle in two levels: every unit once, each block near itself, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.order.locality import Interleaving
from gristmill.testing import random_documents, tiny_store

GOLDEN = [2, 1, 7, 4, 3, 0, 5, 10, 6, 9, 8, 11, 13, 12]
Shape = tuple[int, int, int]
shapes = st.tuples(st.integers(1, 300), st.integers(1, 40), st.integers(1, 40)).map(lambda s: (s[0], min(s[:2]), s[2]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> gm.Store:
    return tiny_store(tmp_path_factory.mktemp("locality") / "store", random_documents(200), shards=2)


def rounds_by_definition(units: int, block: int, window: int) -> list[list[tuple[int, int]]]:
    """For each round its (lane, block in the epoch's order), walked as the module's picture shows it."""
    blocks = -(-units // block)
    missing = blocks * block - units
    rounds = []
    for t in range(2 * blocks):
        due = [(lane, t - lane * min(window, blocks) // block) for lane in range(block)]
        rounds.append([(lane, b) for lane, b in due if 0 <= b < blocks - (lane < missing)])
    return [members for members in rounds if members]


@given(shapes, st.integers(0, 2**64 - 1))
def test_an_epoch_takes_every_unit_once_and_each_place_is_found_again(shape: Shape, key: int) -> None:
    order, places = Interleaving(*shape), np.arange(shape[0])
    units = order.units_at(key, places)
    assert sorted(units.tolist()) == places.tolist()
    assert np.array_equal(order.index_of(key, units), places)
    some = places[:: max(len(places) // 7, 1)]
    assert np.array_equal(order.units_at(key, some), units[some]), "a place depends on no other"


@given(shapes, st.integers(0, 2**64 - 1))
def test_each_round_takes_the_blocks_of_the_picture(shape: Shape, key: int) -> None:
    taken = iter((Interleaving(*shape).units_at(key, np.arange(shape[0])) // shape[1]).tolist())
    names: dict[int, int] = {}
    for members in rounds_by_definition(*shape):
        served = [next(taken) for _ in members]
        for block in served:
            names.setdefault(block, len(names))
        assert len(set(served)) == len({block for _, block in members})
    assert next(taken, None) is None and len(names) == -(-shape[0] // shape[1])


@given(shapes, st.integers(0, 2**64 - 1))
def test_no_more_than_a_window_of_blocks_is_open_at_any_place(shape: Shape, key: int) -> None:
    blocks = Interleaving(*shape).units_at(key, np.arange(shape[0])) // shape[1]
    _, first = np.unique(blocks, return_index=True)
    _, last = np.unique(blocks[::-1], return_index=True)
    opened = np.bincount(first, minlength=shape[0]) - np.bincount(shape[0] - last, minlength=shape[0] + 1)[:-1]
    assert np.cumsum(opened).max() <= shape[2] + 1  # the round that brings one in may serve it before it lets one go


def test_the_order_has_its_pinned_values() -> None:
    assert Interleaving(14, 4, 2).units_at(7, np.arange(14)).tolist() == GOLDEN


def test_epochs_differ_and_a_batch_far_from_the_edges_mixes_many_blocks() -> None:
    order = Interleaving(1_000_000, 256, 512)
    here = [order.units_at(key, np.arange(500_000, 500_064)) for key in (1, 2)]
    assert not np.array_equal(*here)
    assert all(len(np.unique(units // 256)) == 64 for units in here)


def test_a_plan_with_locality_serves_every_sample_once_and_finds_what_it_served(store: gm.Store) -> None:
    plan = gm.Plan(store, seq_len=8, batch_size=4, options={"locality": {"block": 8, "window": 4}})
    seen = np.concatenate([plan.samples(step)[:, 2] for step in range(len(plan))])
    assert len(np.unique(seen)) == len(seen)
    for step in (0, len(plan) // 2, len(plan) - 1):
        for row in plan.trace(step):
            assert step in {found.step for found in plan.find(row.doc_id)}


def test_locality_is_part_of_the_plan(store: gm.Store) -> None:
    def plan(**options: object) -> gm.Plan:
        return gm.Plan(store, seq_len=8, batch_size=4, options=options)

    local = plan(locality=gm.Locality(8, 4))
    assert len({local.fingerprint, plan().fingerprint, plan(locality={"block": 8, "window": 5}).fingerprint}) == 3
    again = gm.Plan.from_json(local.to_json(), {"data": store})
    assert again.fingerprint == local.fingerprint and again.options == local.options
    apart = [made.forecast().sources[0].neighbours_apart for made in (plan(shuffle=False), local, plan())]
    assert apart[0] == 1 and apart == sorted(apart)


@pytest.mark.parametrize("wrong", [{"block": 0}, {"window": 0}, {"block": "8"}, {"blocks": 8}, 7])
def test_what_is_no_locality_is_refused(store: gm.Store, wrong: object) -> None:
    with pytest.raises(gm.ConfigError, match="locality"):
        gm.Plan(store, seq_len=8, batch_size=4, options={"locality": wrong})


def test_locality_without_a_shuffle_is_refused(store: gm.Store) -> None:
    with pytest.raises(gm.ConfigError, match="shuffle=False"):
        gm.Plan(store, seq_len=8, batch_size=4, options={"locality": {}, "shuffle": False})


@pytest.mark.parametrize(("units", "block", "window"), [(1000, 16, 8), (1000, 7, 30), (64, 64, 4), (130, 16, 3)])
def test_a_block_is_known_to_be_read_from_its_first_to_its_last_round(units: int, block: int, window: int) -> None:
    order = Interleaving(units, block, window)
    taken = order.units_at(5, np.arange(units)) // block
    blocks = np.arange(-(-units // block))
    for index in range(0, units, 37):
        rounds = order.rounds_until(5, index, blocks)
        left = set(taken[index:].tolist())
        assert all(rounds[b] >= 0 for b in left)
        soon = set(taken[index : index + 1].tolist())
        assert all(rounds[b] == 0 for b in soon)
        first = {b: int(np.flatnonzero(taken == b)[0]) for b in blocks.tolist()}
        ahead = [b for b in blocks.tolist() if first[b] > index + 2 * block]
        assert all(rounds[b] > 0 for b in ahead)
