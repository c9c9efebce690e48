"""The promises of a plan, for any seed, mix, phases, cut, world size and number of threads."""

import json
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from gristmill.testing import (
    assert_resumes_anywhere,
    assert_same_on_any_world,
    random_documents,
    served_steps,
    tiny_store,
)

_folder = tempfile.TemporaryDirectory(prefix="gristmill-test-")
_SIZES = {"small": 12, "middle": 60, "large": 150}
_LENGTHS = (8, 16, 32)
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")


@pytest.fixture(scope="module")
def stores():
    made = {}
    for i, (name, documents) in enumerate(_SIZES.items()):
        store = tiny_store(Path(_folder.name) / name, random_documents(documents, seed=i), shards=1 + i)
        for seq_len in _LENGTHS:
            gm.index(store, seq_len=seq_len)
        made[name] = store
    return made


@st.composite
def weights(draw, names):
    shares = [draw(st.integers(0, 20)) for _ in names]
    shares[draw(st.integers(0, len(names) - 1))] += 1
    return {name: str(Fraction(share, sum(shares))) for name, share in zip(names, shares, strict=True)}


@st.composite
def phases(draw, names, steps, cut, batch_sizes):
    starts = sorted(draw(st.sets(st.integers(1, steps - 1), max_size=3)))
    return [
        gm.Phase(
            start,
            weights=draw(st.none() | weights(names)),
            seq_len=draw(st.none() | st.sampled_from(_LENGTHS)),
            batch_size=draw(st.none() | st.sampled_from(batch_sizes)),
            restart=cut != "chunk",
        )
        for start in starts
    ]


@st.composite
def plans(draw, cuts=("chunk", "pack", "pad", "window"), batch_sizes=(4, 8, 12)):
    """A function from stores to a plan of up to 25 steps."""
    names = draw(st.lists(st.sampled_from(sorted(_SIZES)), min_size=1, max_size=3, unique=True))
    cut = draw(st.sampled_from(cuts))
    steps = draw(st.integers(4, 25))
    options = gm.PlanOptions(
        cut=cut,
        unit=max(_LENGTHS) if cut == "chunk" else None,
        block=draw(st.sampled_from((64, 256, 4096))),
        phases=draw(phases(names, steps, cut, batch_sizes)),
        skip=draw(st.lists(st.tuples(st.integers(0, 1), st.integers(2, 3)), max_size=1)),
        shuffle=draw(st.booleans()),
    )
    arguments = {
        "weights": draw(weights(names)),
        "seq_len": draw(st.sampled_from(_LENGTHS)),
        "batch_size": draw(st.sampled_from(batch_sizes)),
        "seed": draw(st.integers(0, 2**32)),
        "steps": steps,
        "options": options,
    }
    return lambda stores: gm.Plan({name: stores[name] for name in names}, **arguments)


@settings(max_examples=30)
@given(make=plans(), world_size=st.sampled_from((1, 2, 4)), threads=st.sampled_from((0, 1, 3)))
def test_the_union_of_ranks_is_the_plans_step(stores, make, world_size, threads):
    assert_same_on_any_world(make(stores), (world_size,), (threads,), keys=KEYS)


@given(make=plans())
def test_rows_of_a_step_do_not_depend_on_how_many_are_asked_for_at_once(stores, make):
    plan = make(stores)
    for segment in plan.segments:
        end = segment.to_step
        together = plan.samples_of_steps(segment.from_step, end - segment.from_step)
        alone = [plan.samples_of_steps(step, 1) for step in range(segment.from_step, end)]
        assert np.array_equal(together, np.concatenate(alone))


@given(name=st.sampled_from(sorted(_SIZES)), cut=st.sampled_from(("chunk", "pack", "pad")), seed=st.integers(0, 10**9),
       seq_len=st.sampled_from(_LENGTHS), shuffle=st.booleans(), epochs=st.integers(1, 3))  # fmt: skip
def test_an_epoch_covers_each_sample_exactly_once(stores, name, cut, seed, seq_len, shuffle, epochs):
    options = gm.PlanOptions(cut=cut, unit=32 if cut == "chunk" else None, shuffle=shuffle)
    plan = gm.Plan({name: stores[name]}, seq_len=seq_len, batch_size=1, seed=seed, steps=10**6, options=options)
    samples = plan.segments[0].lanes[0].order.samples
    rows = plan.samples_of_steps(0, epochs * samples)
    assert np.array_equal(rows[:, 1], np.repeat(np.arange(epochs), samples))
    for epoch in range(epochs):
        assert np.array_equal(np.sort(rows[rows[:, 1] == epoch, 2]), np.arange(samples))


@given(make=plans())
def test_what_a_source_has_given_is_a_prefix_of_its_order(stores, make):
    plan = make(stores)
    for segment in plan.segments:
        rows = plan.samples_of_steps(segment.from_step, segment.to_step - segment.from_step)
        for k, lane in enumerate(segment.lanes):
            mine = rows[rows[:, 0] == k]
            places = [
                (epoch - lane.epoch) * lane.order.samples + int(lane.order.index_of(epoch, np.array([sample]))[0])
                for _, epoch, sample in mine.tolist()
            ]
            assert places == list(range(lane.index, lane.index + len(places)))


@given(make=plans())
def test_the_forecast_is_what_happens(stores, make):
    plan = make(stores)
    for step in {1, plan.total_steps // 2 or 1, plan.total_steps}:
        rows = np.concatenate([plan.samples_of_steps(s, 1) for s in range(step)])
        forecast = plan.forecast(step)
        counted = np.bincount(rows[:, 0], minlength=len(plan.names))
        assert [source.samples for source in forecast.sources] == counted.tolist()
        served = [s for s in served_steps(plan) if s < step]
        assert forecast.tokens == sum(plan.segment(s).batch_size * plan.segment(s).seq_len for s in served)


@settings(max_examples=15)
@given(make=plans(), world_size=st.sampled_from((1, 2, 4)), threads=st.sampled_from((0, 2)))
def test_resuming_at_every_step_equals_the_uninterrupted_run(stores, make, world_size, threads):
    plan = make(stores)
    assert_resumes_anywhere(plan, world_size=world_size, threads=threads)


@settings(max_examples=25)
@given(make=plans(), data=st.data())
def test_a_mix_may_change_from_the_checkpoint_on(stores, make, data):
    plan = make(stores)
    step = data.draw(st.integers(1, plan.total_steps - 1))
    kept = [phase for phase in plan.options.phases if phase.from_step < step]
    phase = gm.Phase(step, weights=data.draw(weights(plan.names)))
    options = gm.PlanOptions(**{**vars(plan.options), "phases": [*kept, phase]})
    changed = gm.Plan(
        {name: stores[name] for name in plan.names}, plan.weights, seq_len=plan.seq_len, batch_size=plan.batch_size,
        seed=plan.seed, steps=plan.steps, options=options,
    )  # fmt: skip
    assert_resumes_anywhere(plan, resumed=changed, at=[step])


@settings(max_examples=40)
@given(make=plans(), data=st.data())
def test_find_agrees_with_a_scan_of_trace(stores, make, data):
    plan = make(stores)
    name = data.draw(st.sampled_from(plan.names))
    document = stores[name].document_id(data.draw(st.integers(0, stores[name].num_documents - 1)))
    traced = {
        (step, row.row, row.source) for step in served_steps(plan) for row in plan.trace(step) if row.doc_id == document
    }
    assert {(seen.step, seen.row, seen.source) for seen in plan.find(document)} == traced


@given(make=plans())
def test_a_plan_survives_its_json(stores, make):
    plan = make(stores)
    again = gm.Plan.from_json(plan.to_json(), {name: stores[name] for name in plan.names})
    assert again.fingerprint == plan.fingerprint
    assert json.loads(again.to_json()) == json.loads(plan.to_json())
    assert np.array_equal(again.samples_of_steps(0, 1), plan.samples_of_steps(0, 1))


def _expected_row(plan, step, row):
    """A row put together document by document: tokens, whether each is a target, and the label of each."""
    seq_len, cut = plan.segment(step).seq_len, plan.options.cut
    sources = {source.name: source.store for source in plan.sources}
    ids, mask, labels = [], [], []
    pieces = [piece for piece in plan.trace(step) if piece.row == row]
    for i, piece in enumerate(pieces):
        store = sources[piece.source]
        number = store.locate([piece.doc_id])[piece.doc_id][0]
        tokens = store.document(number).tokens.tolist()
        ids += tokens[piece.start : piece.end]
        mask += [cut in ("chunk", "window")] + [True] * (piece.end - piece.start - 1)
        following = [*tokens[piece.end : piece.end + 1]]
        if cut in ("chunk", "window"):
            end = store.document_span(number)[0] + piece.end
            following = store.tokens(end, min(end + 1, store.num_tokens)).tolist()
        labels += tokens[piece.start + 1 : piece.end] + (following[:1] or [-100])
        if i + 1 < len(pieces) and cut == "pack":
            labels[-1] = -100 if piece.end == len(tokens) else labels[-1]
    eos = plan.sources[0].store.eos
    padding = seq_len - len(ids)
    return ids + [eos] * padding, mask + [False] * padding, labels + [-100] * padding


@settings(max_examples=40)
@given(make=plans(), data=st.data())
def test_batches_hold_what_the_trace_says(stores, make, data):
    plan = make(stores)
    step = data.draw(st.sampled_from(served_steps(plan)))
    batch = gm.Loader(plan, keys=KEYS, threads=0, max_docs=64).batch(step)
    for row in range(len(batch["input_ids"])):
        ids, mask, labels = _expected_row(plan, step, row)
        assert batch["input_ids"][row].tolist() == ids
        assert batch["labels"][row].tolist() == labels
        if "loss_mask" in batch:
            assert batch["loss_mask"][row].tolist() == mask
        lengths = [piece.end - piece.start for piece in plan.trace(step) if piece.row == row]
        _check_documents(batch, row, lengths, len(ids))


def _check_documents(batch, row, lengths, seq_len):
    numbers = [k for k, length in enumerate(lengths) for _ in range(length)]
    padding = seq_len - len(numbers)
    assert batch["doc_ids"][row].tolist() == numbers + [-1] * padding
    stretches = [*lengths, padding] if padding else lengths
    assert batch["position_ids"][row].tolist() == [i for length in stretches for i in range(length)]
    bounds = np.cumsum([0, *stretches]).tolist()
    assert batch["cu_seqlens"][row].tolist() == bounds + [seq_len] * (65 - len(bounds))
