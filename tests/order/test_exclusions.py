"""Documents and steps taken out: no other sample moves."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import EOS, assert_equal_batches, assert_same_on_any_world, random_documents, tiny_store

KEYS = ("labels", "doc_ids")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = tiny_store(tmp_path_factory.mktemp("out"), random_documents(100), shards=2)
    gm.index(made, seq_len=16)
    return made


def plan_of(store, cut="chunk", **options):
    return gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=120, options=gm.PlanOptions(cut=cut, **options))


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad", "window"])
@pytest.mark.parametrize("mode", ["replace", "loss"])
def test_an_excluded_document_is_masked_and_nothing_else_changes(store, cut, mode):
    plain = gm.Loader(plan_of(store, cut), keys=KEYS, threads=0)
    document = plain.plan.trace(30)[0].doc_id
    out = gm.Loader(plan_of(store, cut, exclude=[gm.Exclude(document, from_step=30, mode=mode)]), keys=KEYS, threads=0)
    number = store.locate([document])[document][0]
    touched = 0
    for step in range(120):
        before, after = plain.batch(step), out.batch(step)
        assert np.array_equal(before["sample_ids"], after["sample_ids"])
        assert np.array_equal(before["doc_ids"], after["doc_ids"])
        hit = np.zeros(before["input_ids"].shape, dtype=bool)
        if step >= 30:
            hit = _tokens_of(out.plan, step, document, before["input_ids"].shape)
        expected = np.where(hit, EOS, before["input_ids"]) if mode == "replace" else before["input_ids"]
        assert np.array_equal(after["input_ids"], expected)
        base = before.get("loss_mask", np.ones_like(hit))
        assert np.array_equal(after["loss_mask"], base & ~hit)
        assert np.array_equal(
            after["labels"] != before["labels"], _label_hits(hit, before, number, store, out.plan, step)
        )
        touched += int(hit.sum())
    assert touched


def _tokens_of(plan, step, document, shape):
    """Where the document's tokens stand in a step, by the trace."""
    hit = np.zeros(shape, dtype=bool)
    column = dict.fromkeys(range(shape[0]), 0)
    for piece in plan.trace(step):
        end = column[piece.row] + piece.end - piece.start
        if piece.doc_id == document:
            hit[piece.row, column[piece.row] : end] = True
        column[piece.row] = end
    return hit


def _label_hits(hit, before, number, store, plan, step):
    """Labels that must have become -100: those whose target is a token of the excluded document."""
    labels = np.zeros_like(hit)
    labels[:, :-1] = hit[:, 1:] & (before["labels"][:, :-1] != -100)
    if step < 30:
        return labels
    start, end = store.document_span(number)
    for row, pieces in _rows(plan, step).items():
        last = pieces[-1]
        first, _ = store.document_span(store.locate([last.doc_id])[last.doc_id][0])
        following = first + last.end
        if start <= following < end and before["labels"][row, -1] != -100:
            labels[row, -1] = True
    return labels


def _rows(plan, step):
    rows = {}
    for piece in plan.trace(step):
        rows.setdefault(piece.row, []).append(piece)
    return rows


def test_the_trace_says_which_tokens_are_out(store):
    document = plan_of(store).trace(30)[0].doc_id
    plan = plan_of(store, exclude=[gm.Exclude(document, from_step=30)])
    assert [row.excluded for row in plan.trace(30) if row.doc_id == document] == [True]
    assert not any(row.excluded for row in plan.trace(30) if row.doc_id != document)


def test_exclusions_hold_on_any_world_and_thread(store):
    plan = plan_of(store, "pack", exclude=["part-0:3", "part-1:7"])
    assert_same_on_any_world(plan, (1, 2, 4), (0, 2), keys=KEYS)


def test_skipped_steps_are_passed_over_and_count_as_consumed(store):
    skipped, plain = plan_of(store, skip=[(10, 15), gm.Skip(40, 41)]), plan_of(store)
    loader, whole = gm.Loader(skipped), gm.Loader(plain, threads=0)
    steps = []
    for batch in loader:
        steps.append(loader.step - 1)
        assert_equal_batches(batch, whole.batch(steps[-1]), f"step {steps[-1]}")
        assert loader.served == len(steps)
    assert steps == [step for step in range(120) if not 10 <= step < 15 and step != 40]
    assert len(loader) == 114


def test_a_skipped_step_has_no_batch_and_no_trace(store):
    plan = plan_of(store, skip=[(10, 15)])
    for ask in (gm.Loader(plan).batch, plan.trace, plan.samples):
        with pytest.raises(gm.ConfigError, match="Step 12 is skipped"):
            ask(12)


def test_find_leaves_skipped_steps_out(store):
    document = plan_of(store).trace(12)[0].doc_id
    everywhere = {seen.step for seen in plan_of(store).find(document)}
    served = {seen.step for seen in plan_of(store, skip=[(10, 15)]).find(document)}
    assert served == {step for step in everywhere if not 10 <= step < 15}
