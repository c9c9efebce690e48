"""The loader: shapes, iteration, lifetime, processes."""

import json
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.batch import Assembler
from gristmill.testing import EOS, assert_equal_batches, random_documents, tiny_store

KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("loader"), random_documents(200), shards=4)


def make_plan(store, **changes):
    arguments = {"seq_len": 16, "batch_size": 8, "seed": 3, "steps": 40, **changes}
    return gm.Plan({"web": store}, **arguments)


def test_batches_have_the_keys_shapes_and_dtypes_of_the_design(store):
    batch = gm.Loader(make_plan(store), rank=1, world_size=2, keys=KEYS, max_docs=5).batch(0)
    shapes = {key: (array.shape, array.dtype.name) for key, array in batch.items()}
    assert shapes == {
        "input_ids": ((4, 16), "int64"),
        "labels": ((4, 16), "int64"),
        "doc_ids": ((4, 16), "int32"),
        "position_ids": ((4, 16), "int32"),
        "cu_seqlens": ((4, 6), "int32"),
        "sample_ids": ((4, 3), "int64"),
    }


def test_without_asking_a_chunk_batch_has_only_tokens_and_their_names(store):
    assert set(gm.Loader(make_plan(store)).batch(0)) == {"input_ids", "sample_ids"}


def test_the_number_of_samples_does_not_depend_on_labels(store):
    assert len(gm.Loader(make_plan(store, steps=None), keys=("labels",))) == len(
        gm.Loader(make_plan(store, steps=None))
    )


def test_the_last_token_of_a_source_has_no_label(tmp_path):
    store = tiny_store(tmp_path, [[1, 2, 3], [4, 5, 6]], shards=2)  # 8 tokens: two windows of 4, nothing after them
    plan = gm.Plan({"web": store}, seq_len=4, batch_size=2, options=gm.PlanOptions(shuffle=False))
    batch = gm.Loader(plan, keys=("labels",)).batch(0)
    assert batch["labels"].tolist() == [[2, 3, EOS, 4], [5, 6, EOS, -100]]


def test_iteration_starts_at_step_and_goes_to_the_end(store):
    loader = gm.Loader(make_plan(store))
    loader.seek(35)
    seen = [loader.step for _ in loader]
    assert seen == [36, 37, 38, 39, 40]
    assert list(loader) == []
    loader.seek(0)
    assert len(list(loader)) == 40


def test_a_seek_inside_the_loop_takes_effect_at_once(store):
    loader = gm.Loader(make_plan(store), threads=2)
    steps = []
    for _ in loader:
        steps.append(loader.step - 1)
        if len(steps) == 3:
            loader.seek(30)
        if len(steps) == 5:
            break
    assert steps == [0, 1, 2, 30, 31]


def test_breaking_off_and_iterating_again_loses_nothing(store):
    loader, whole = gm.Loader(make_plan(store), threads=3), gm.Loader(make_plan(store), threads=0)
    for expected in range(0, 40, 7):
        for _, batch in zip(range(7), loader, strict=False):
            assert_equal_batches(batch, whole.batch(loader.step - 1), f"after {expected}")


def test_a_batch_that_is_kept_is_never_written_again(store):
    loader = gm.Loader(make_plan(store, steps=300), threads=2, keys=KEYS)
    kept = list(loader)
    fresh = gm.Loader(make_plan(store, steps=300), threads=0, keys=KEYS)
    for step, batch in enumerate(kept):
        assert_equal_batches(batch, fresh.batch(step), f"step {step}")


def test_a_view_of_a_batch_keeps_its_memory(store):
    loader = gm.Loader(make_plan(store, steps=200), threads=0)
    rows = [batch["input_ids"][0] for batch in loader]
    expected = [gm.Loader(make_plan(store, steps=200), threads=0).batch(step)["input_ids"][0] for step in range(200)]
    assert np.array_equal(np.stack(rows), np.stack(expected))


def test_random_access_from_many_threads_gives_the_same_batches(store):
    loader = gm.Loader(make_plan(store), keys=KEYS)
    expected = [gm.Loader(make_plan(store), keys=KEYS, threads=0).batch(step) for step in range(40)]
    wrong = []

    def read(order):
        for step in order:
            try:
                assert_equal_batches(loader.batch(step), expected[step], f"step {step}")
            except BaseException as error:
                wrong.append(error)

    rng = np.random.default_rng(0)
    threads = [threading.Thread(target=read, args=(rng.permutation(40).tolist(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_endless_mix_has_no_length(store):
    plan = gm.Plan({"a": store, "b": store}, {"a": 0.5, "b": 0.5}, seq_len=16, batch_size=8)
    with pytest.raises(TypeError):
        len(gm.Loader(plan))
    loader = gm.Loader(plan)
    assert [loader.step for _, _ in zip(range(3), loader, strict=False)] == [1, 2, 3]


def test_state_is_small_json_and_equal_on_every_rank(store):
    loaders = [gm.Loader(make_plan(store), rank, 4) for rank in range(4)]
    for loader in loaders:
        loader.seek(17)
    states = [json.dumps(loader.state_dict()) for loader in loaders]
    assert len(set(states)) == 1
    assert len(states[0]) < 1024
    assert json.loads(states[0])["tokens"] == 17 * 8 * 16


def test_stats_tell_throughput_and_waiting(store):
    loader = gm.Loader(make_plan(store))
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats["batches"] == 40
    assert stats["tokens"] == 40 * 8 * 16
    assert stats["tokens_per_second"] > 0
    assert 0 <= stats["waited_share"] <= 1


def test_padding_and_truncation_are_counted(tmp_path):
    store = tiny_store(tmp_path, [[1] * 2, [2] * 30], shards=1)  # 3 and 31 tokens with EOS
    plan = gm.Plan({"web": store}, seq_len=8, batch_size=2, options=gm.PlanOptions(cut="pad", shuffle=False))
    loader = gm.Loader(plan)
    assert len(list(loader)) == 1
    assert loader.stats()["padded_tokens"] == 5
    assert loader.stats()["truncated_tokens"] == 23
    assert plan.forecast().sources[0].unserved_tokens == 23


def test_documents_that_overflow_cu_seqlens_are_merged_and_counted(tmp_path):
    store = tiny_store(tmp_path, [[1]] * 8, shards=1)
    plan = gm.Plan({"web": store}, seq_len=16, batch_size=1, options=gm.PlanOptions(shuffle=False))
    loader = gm.Loader(plan, keys=("cu_seqlens",), max_docs=3)
    assert next(iter(loader))["cu_seqlens"].tolist() == [[0, 2, 4, 16]]
    assert loader.stats()["merged_documents"] == 5


def test_a_short_last_batch_is_padded_with_masked_rows(store):
    options = gm.PlanOptions(shuffle=False, drop_last=False)
    plan = gm.Plan({"val": store}, seq_len=16, batch_size=32, options=options)
    samples = store.num_tokens // 16
    assert samples % 32
    batches = [list(gm.Loader(plan, rank, 4, keys=("labels",))) for rank in range(4)]
    real = sum(int((batch["sample_ids"][:, 2] >= 0).sum()) for rank in batches for batch in rank)
    assert real == samples
    for rank in batches:
        absent = rank[-1]["sample_ids"][:, 2] < 0
        assert not rank[-1]["loss_mask"][absent].any()
        assert (rank[-1]["labels"][absent] == -100).all()
        assert (rank[-1]["input_ids"][absent] == EOS).all()
    targets = sum(int(batch["loss_mask"].sum()) for rank in batches for batch in rank)
    assert targets == samples * 16
    forecast = plan.forecast().sources[0]
    assert (forecast.samples, forecast.tokens, forecast.epochs) == (samples, samples * 16, 1)


def _fork_child(loader, expected, results):
    batches = [batch for _, batch in zip(range(3), loader, strict=False)]
    results.put(all(np.array_equal(batch["input_ids"], ids) for batch, ids in zip(batches, expected, strict=True)))


def test_a_fork_while_threads_read_does_not_hang(store):
    loader = gm.Loader(make_plan(store), threads=2)
    batches = iter(loader)
    next(batches)
    expected = [gm.Loader(make_plan(store), threads=0).batch(step)["input_ids"] for step in (1, 2, 3)]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_fork_child, args=(loader, expected, results))
    child.start()
    assert results.get(timeout=60)
    child.join(timeout=60)
    assert np.array_equal(next(batches)["input_ids"], expected[0])


def test_a_pickled_loader_goes_on_where_it_was(store):
    loader = gm.Loader(make_plan(store), rank=1, world_size=2, keys=KEYS)
    for _ in zip(range(5), loader, strict=False):
        pass
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.step == loader.step
    assert_equal_batches(next(iter(copy)), loader.batch(loader.step), "the copy's next batch")


def test_a_spawned_process_reads_from_a_pickled_loader(store):
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found = pool.apply(gm.Loader.batch, (gm.Loader(make_plan(store)), 7))
    assert_equal_batches(found, gm.Loader(make_plan(store)).batch(7), "step 7")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 2, "world_size": 2}, "no rank 2"),
        ({"world_size": 3}, "cannot be split over 3 ranks"),
        ({"keys": ("lables",)}, "did you mean 'labels'"),
        ({"threads": -1}, "threads must be"),
    ],
)
def test_impossible_loaders_are_refused(store, arguments, message):
    with pytest.raises(gm.ConfigError, match=message):
        gm.Loader(make_plan(store), **arguments)


def test_padding_without_an_eos_is_refused(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "x.bin")
    store = gm.open(tmp_path / "x.bin", dtype="uint16")
    plan = gm.Plan({"x": store}, seq_len=8, batch_size=8, options=gm.PlanOptions(drop_last=False))
    with pytest.raises(gm.ConfigError, match="open foreign files with eos="):
        gm.Loader(plan)


def test_document_keys_without_boundaries_name_the_command_that_builds_them(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "x.bin")
    store = gm.open(tmp_path / "x.bin", dtype="uint16")
    with pytest.raises(gm.ConfigError, match=r"gristmill index .* --eos"):
        gm.Loader(gm.Plan({"x": store}, seq_len=8, batch_size=2), keys=("doc_ids",))


def test_more_shards_than_maps_may_be_open_give_the_same_batches(tmp_path):
    store = tiny_store(tmp_path, random_documents(300), shards=60)
    plan = gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=80)
    whole = gm.Loader(plan, keys=KEYS, threads=0)
    few = gm.Loader(plan, keys=KEYS, threads=3)
    few._assembler = Assembler(plan, KEYS, None, buffer_bytes=1 << 20, max_maps=10)
    for step, batch in enumerate(few):
        assert_equal_batches(batch, whole.batch(step), f"step {step}")
    for step in range(80):  # one step touches at most 8 shards
        assert_equal_batches(few.batch(step), whole.batch(step), f"step {step}")
        assert (few._assembler._table.bins.addresses != 0).sum() <= 10


def test_a_rank_without_any_row_of_the_last_batch_gets_padding(tmp_path):
    store = tiny_store(tmp_path, [[1] * 15] * 5, shards=1)  # five windows of 16
    plan = gm.Plan({"val": store}, seq_len=16, batch_size=4, options=gm.PlanOptions(shuffle=False, drop_last=False))
    last = gm.Loader(plan, rank=3, world_size=4, keys=KEYS).batch(1)
    assert last["sample_ids"].tolist() == [[-1, -1, -1]]
    assert not last["loss_mask"].any()
    assert (last["doc_ids"] == -1).all()
