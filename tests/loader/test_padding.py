"""Padding: what a row attends to, and batches that are only as wide as their longest row."""

import pickle

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import EOS, assert_equal_batches, join_ranks, random_documents, tiny_store

KEYS = ("labels", "loss_mask", "doc_ids", "position_ids", "attention_mask")
PADDING = {"input_ids": EOS, "labels": -100, "loss_mask": False, "doc_ids": -1, "attention_mask": 0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("padding"), random_documents(203, mean_tokens=9), shards=4)


def make_plan(store, cut="pad", **options):
    return gm.Plan({"web": store}, seq_len=32, batch_size=8, seed=3, options=gm.PlanOptions(cut=cut, **options))


def lengths_of(store, batch):
    """Tokens of each row's document, 0 for rows of padding."""
    spans = [store.document_span(i) if i >= 0 else (0, 0) for i in batch["sample_ids"][:, 2].tolist()]
    return [min(end - start, 32) for start, end in spans]


# attention_mask


@pytest.mark.parametrize("drop_last", [True, False])
def test_a_row_attends_to_its_document_with_its_eos_and_to_no_padding(store, drop_last):
    for batch in gm.Loader(make_plan(store, drop_last=drop_last), keys=("attention_mask",), threads=0):
        mask = batch["attention_mask"]
        assert mask.dtype == np.int64 and mask.shape == batch["input_ids"].shape
        expected = np.arange(32) < np.array(lengths_of(store, batch))[:, None]
        assert (mask == expected).all()


def test_a_packed_row_attends_to_all_its_documents(store, tmp_path):
    packed = gm.open([str(store.files.path(i)) for i in range(4)], dtype="uint16", eos=EOS, index_dir=tmp_path)
    gm.index(packed, 32)
    loader = gm.Loader(make_plan(packed, "pack"), keys=("attention_mask", "doc_ids"), threads=0)
    batches = list(loader)
    assert all(((b["doc_ids"] >= 0) == (b["attention_mask"] == 1)).all() for b in batches)
    assert any((b["attention_mask"] == 0).any() for b in batches)


def test_a_stretch_of_the_stream_has_no_padding(store):
    batch = gm.Loader(make_plan(store, "chunk"), keys=("attention_mask",), threads=0).batch(0)
    assert (batch["attention_mask"] == 1).all()


def test_an_excluded_document_is_still_attended_to(store):
    plan = make_plan(store, shuffle=False, exclude=[store.document_id(2)])
    with_it = gm.Loader(make_plan(store, shuffle=False), keys=KEYS, threads=0).batch(0)
    without = gm.Loader(plan, keys=KEYS, threads=0).batch(0)
    assert (with_it["attention_mask"] == without["attention_mask"]).all() and not without["loss_mask"][2].any()


# pad_to_multiple_of


@pytest.mark.parametrize("multiple", [1, 8, 5, 1000])
@pytest.mark.parametrize("threads", [0, 2])
def test_a_batch_is_the_usual_one_without_the_columns_that_are_all_padding(store, multiple, threads):
    plan = make_plan(store, drop_last=False)
    usual = list(gm.Loader(plan, keys=KEYS, threads=0))
    narrow = list(gm.Loader(plan, keys=KEYS, threads=threads, pad_to_multiple_of=multiple))
    assert len(usual) == len(narrow) == 26
    for wide, batch in zip(usual, narrow, strict=True):
        width = min(-(-max(lengths_of(store, wide)) // multiple) * multiple, 32)
        for key, value in PADDING.items():
            assert (wide[key][:, width:] == value).all()
        cut = {key: array[:, :width] if key != "sample_ids" else array for key, array in wide.items()}
        assert_equal_batches(batch, cut, "narrow")


def test_narrow_batches_save_padding_and_lose_no_token(store):
    loaders = [gm.Loader(make_plan(store), threads=0, pad_to_multiple_of=multiple) for multiple in (1, None)]
    widths = [{batch["input_ids"].shape[1] for batch in loader} for loader in loaders]
    assert len(widths[0]) > 3 and widths[1] == {32}
    narrow, usual = (loader.stats() for loader in loaders)
    assert narrow["tokens"] < usual["tokens"] == 25 * 8 * 32
    assert narrow["tokens"] - narrow["padded_tokens"] == usual["tokens"] - usual["padded_tokens"]


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_all_ranks_agree_on_the_shape_of_a_step(store, world_size):
    plan = make_plan(store, drop_last=False)
    options = {"keys": KEYS, "threads": 0, "pad_to_multiple_of": 1}
    alone, ranks = gm.Loader(plan, **options), [gm.Loader(plan, r, world_size, **options) for r in range(world_size)]
    for whole, *parts in zip(alone, *ranks, strict=True):
        assert {part["input_ids"].shape for part in parts} == {(8 // world_size, whole["input_ids"].shape[1])}
        assert_equal_batches(join_ranks(parts), whole, "ranks")


def test_the_shape_is_a_function_of_the_step_alone(store):
    plan = make_plan(store)
    loader = gm.Loader(plan, keys=("labels",), threads=0, pad_to_multiple_of=4)
    batches = list(loader)
    again = pickle.loads(pickle.dumps(loader))
    for step in (24, 0, 13):
        assert_equal_batches(again.batch(step), batches[step], "random access")
    for step, batch in loader.batches_from(1, every=3):
        assert_equal_batches(batch, batches[step], "spaced")


def test_a_checkpoint_does_not_depend_on_it(store):
    plan = make_plan(store)
    narrow, usual = gm.Loader(plan, threads=0, pad_to_multiple_of=1), gm.Loader(plan, threads=0)
    for _, _ in zip(range(5), narrow, strict=False):
        pass
    usual.load_state_dict(narrow.state_dict())
    assert usual.state_dict() == narrow.state_dict()


def test_cu_seqlens_keep_their_columns(store):
    loader = gm.Loader(make_plan(store), keys=("cu_seqlens",), threads=0, pad_to_multiple_of=1, max_docs=3)
    for batch in loader:
        width = batch["input_ids"].shape[1]
        expected = [sorted([0, length, width, width]) for length in lengths_of(store, batch)]
        assert batch["cu_seqlens"].tolist() == expected


@pytest.mark.parametrize("cut", ["chunk", "window"])
def test_it_is_refused_where_all_rows_are_full(store, cut):
    with pytest.raises(gm.ConfigError, match='is for cut="pad"'):
        gm.Loader(make_plan(store, cut), pad_to_multiple_of=8)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "8"])
def test_a_multiple_is_a_whole_number_above_0(store, wrong):
    with pytest.raises(gm.ConfigError, match="pad_to_multiple_of must be a whole number above 0"):
        gm.Loader(make_plan(store), pad_to_multiple_of=wrong)
