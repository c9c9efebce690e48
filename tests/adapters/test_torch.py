"""PyTorch: tensors, ranks, devices, and torch's own DataLoader."""

import multiprocessing
import pickle
from datetime import timedelta

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

import gristmill as gm
from gristmill.adapters.torch import BatchDataset, SampleDataset, TorchLoader, data_parallel_rank
from gristmill.testing import assert_equal_batches, join_ranks, random_documents, served_steps, tiny_store

KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")
SKIPS = gm.PlanOptions(skip=[gm.Skip(from_step=3, to_step=5), gm.Skip(from_step=9, to_step=10)])

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("torch"), random_documents(300), shards=3)


def make_plan(store, **changes):
    return gm.Plan({"web": store}, **{"seq_len": 16, "batch_size": 8, "seed": 3, "steps": 20, **changes})


def as_numpy(tensors):
    return {key: tensor.numpy() for key, tensor in tensors.items()}


def expected_batches(plan, rank=0, world_size=1, keys=()):
    loader = gm.Loader(plan, rank, world_size, keys=keys, threads=0)
    return [loader.batch(step) for step in served_steps(plan)]


def assert_same_batches(found, expected):
    found = list(found)
    assert len(found) == len(expected)
    for i, (tensors, batch) in enumerate(zip(found, expected, strict=True)):
        assert_equal_batches(as_numpy(tensors), batch, f"batch {i}")


# TorchLoader


@pytest.mark.parametrize("cut", ["chunk", "pad"])
def test_tensors_hold_what_the_numpy_loader_gives(store, cut):
    plan = make_plan(store, options=gm.PlanOptions(cut=cut))
    loader = TorchLoader(plan, keys=KEYS)
    assert_same_batches(loader, expected_batches(plan, keys=KEYS))
    dtypes = {key: tensor.dtype for key, tensor in loader.batch(0).items() if key != "loss_mask"}
    wide, narrow = (
        dict.fromkeys(("input_ids", "labels", "sample_ids"), torch.int64),
        dict.fromkeys(KEYS[1:], torch.int32),
    )
    assert dtypes == wide | narrow


def test_tensors_that_are_kept_are_never_written_again(store):
    plan = make_plan(store, steps=300)
    assert_same_batches(list(TorchLoader(plan, keys=KEYS)), expected_batches(plan, keys=KEYS))


def test_a_batch_may_be_changed_while_the_one_before_waits_for_its_backward(store):
    first, second, *_ = TorchLoader(make_plan(store), threads=0)
    table = torch.nn.Embedding(1 << 16, 2)
    loss = table(first["input_ids"]).sum()
    second["input_ids"][:, 0] = 7
    loss.backward()
    assert table.weight.grad.sum() == first["input_ids"].numel() * 2


def test_a_state_resumes_anywhere_and_on_another_world_size(store):
    plan = make_plan(store, options=SKIPS)
    expected = expected_batches(plan)
    before = TorchLoader(plan)
    for served, _ in enumerate(before, start=1):
        ranks = [TorchLoader(plan, rank, 2, threads=0) for rank in range(2)]
        for loader in ranks:
            loader.load_state_dict(before.state_dict())
        joined = [join_ranks([as_numpy(part) for part in parts]) for parts in zip(*ranks, strict=True)]
        assert len(joined) == len(expected) - served == len(plan) - served
        for i, batch in enumerate(joined):
            assert_equal_batches(batch, expected[served + i], f"batch {i} after {served}")


def test_a_checkpoint_of_another_plan_is_refused(store):
    loader = TorchLoader(make_plan(store, seed=4))
    loader.seek(5)
    with pytest.raises(gm.StateError, match="seed"):
        TorchLoader(make_plan(store)).load_state_dict(loader.state_dict())


def test_a_plan_without_end_has_no_length(store, tmp_path):
    other = tiny_store(tmp_path / "other")
    plan = gm.Plan({"web": store, "code": other}, seq_len=16, batch_size=8)
    for endless in (TorchLoader(plan), BatchDataset(plan)):
        with pytest.raises(TypeError, match="endless"):
            len(endless)
    with pytest.raises(gm.ConfigError, match="steps="):
        SampleDataset(plan)


@pytest.mark.parametrize("make", [TorchLoader, BatchDataset])
def test_what_is_pickled_serves_the_same_batches(store, make):
    plan = make_plan(store)
    copy = pickle.loads(pickle.dumps(make(plan, 1, 2, keys=KEYS)))
    assert_same_batches(copy, expected_batches(plan, 1, 2, keys=KEYS))


# Devices


def test_batches_go_to_the_device_that_is_asked_for(store):
    loader = TorchLoader(make_plan(store), device="meta", keys=("labels",))
    for batch in (loader.batch(0), next(iter(loader))):
        assert {tensor.device.type for tensor in batch.values()} == {"meta"}
    assert pickle.loads(pickle.dumps(loader)).device == torch.device("meta")


@pytest.fixture
def cuda_calls(monkeypatch):
    """A machine that says it has CUDA: what would be pinned and copied is written down, and nothing moves."""
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: calls.append("pin") or tensor)
    monkeypatch.setattr(
        torch.Tensor, "to", lambda tensor, device, non_blocking: calls.append((str(device), non_blocking)) or tensor
    )
    return calls


@pytest.mark.parametrize(
    ("device", "expected"),
    [(None, {"pin"}), ("cuda:1", {"pin", ("cuda:1", True)}), ("cpu", {("cpu", False)}), ("xpu", {("xpu", False)})],
)
def test_memory_is_pinned_for_cuda_and_only_then_copied_asynchronously(store, cuda_calls, device, expected):
    batch = next(iter(TorchLoader(make_plan(store), device=device)))
    assert set(cuda_calls) == expected
    assert len(cuda_calls) == len(expected) * len(batch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_on_a_gpu_are_whole(store):
    plan = make_plan(store, steps=200)
    on_host = [{key: tensor.cpu() for key, tensor in batch.items()} for batch in TorchLoader(plan, device="cuda")]
    assert_same_batches(on_host, expected_batches(plan))


# Ranks


def test_without_distributed_there_is_one_rank(store):
    assert data_parallel_rank() == (0, 1)
    loader = TorchLoader(make_plan(store))
    assert (loader.rank, loader.world_size) == (0, 1)


def test_processes_of_torchrun_do_not_silently_all_read_everything(store, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(gm.ConfigError, match="init_process_group"):
        TorchLoader(make_plan(store))
    assert TorchLoader(make_plan(store), 3, 4).rank == 3


def test_half_a_rank_and_a_world_that_does_not_divide_are_refused(store):
    with pytest.raises(gm.ConfigError, match="together"):
        TorchLoader(make_plan(store), rank=1)
    with pytest.raises(gm.ConfigError, match="multiple of 3"):
        TorchLoader(make_plan(store), 0, 3)


def in_processes(world_size, function, *arguments):
    """The results of function(*arguments) on each rank of a gloo group, in the order of ranks."""
    context = multiprocessing.get_context("fork")
    queue, rendezvous = context.SimpleQueue(), distributed.TCPStore("127.0.0.1", 0, is_master=True)
    processes = [
        context.Process(target=_on_rank, args=(rank, world_size, rendezvous.port, queue, function, arguments))
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    found = dict(queue.get() for _ in processes)
    for process in processes:
        process.join()
    return [found[rank] for rank in range(world_size)]


def _on_rank(rank, world_size, port, queue, function, arguments):
    try:
        store = distributed.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=30))
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
        queue.put((rank, function(*arguments)))
    except BaseException as error:
        queue.put((rank, error))


def _ids_of_rank(plan):
    loader = TorchLoader(plan)
    return loader.rank, loader.world_size, [batch["sample_ids"].tolist() for batch in loader]


def test_rank_and_world_size_come_from_torch_distributed(store):
    plan = make_plan(store)
    for rank, found in enumerate(in_processes(2, _ids_of_rank, plan)):
        assert found == (rank, 2, [batch["sample_ids"].tolist() for batch in expected_batches(plan, rank, 2)])


def _ranks_in_meshes(plan):
    flat = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    deep = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("replicate", "shard", "tp"))
    loader, dataset = TorchLoader(plan, mesh=flat["dp"]), BatchDataset(plan, mesh=flat["dp"])
    first = [batch["sample_ids"].tolist() for batch in (loader.batch(0), next(iter(dataset)))]
    with pytest.raises(gm.ConfigError, match="Ranks along tp must see the same rows"):
        TorchLoader(plan, mesh=flat)
    return (loader.rank, loader.world_size), data_parallel_rank(deep["replicate", "shard"]), first


def test_tensor_parallel_ranks_share_a_data_parallel_rank(store):
    plan = make_plan(store)
    for rank, (flat, deep, first) in enumerate(in_processes(4, _ranks_in_meshes, plan)):
        assert flat == (rank // 2, 2)
        assert deep == (rank, 4)
        assert first == [expected_batches(plan, rank // 2, 2)[0]["sample_ids"].tolist()] * 2


# torch's DataLoader over BatchDataset


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [gm.PlanOptions(), SKIPS], ids=["plain", "skips"])
def test_the_order_is_the_same_for_every_number_of_workers(store, num_workers, options):
    plan = make_plan(store, options=options)
    loader = DataLoader(BatchDataset(plan, 1, 2, keys=("labels",)), batch_size=None, num_workers=num_workers)
    assert len(loader) == len(plan)
    expected = expected_batches(plan, 1, 2, keys=("labels",))
    assert_same_batches(loader, expected)
    assert_same_batches(loader, expected)  # each pass starts at the beginning


@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_all_keys_come_out_of_workers_as_plain_dicts_that_may_be_changed(store, context, workers):
    plan = make_plan(store, batch_size=64)
    dataset = BatchDataset(plan, keys=KEYS)
    found = list(DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context))
    assert {type(batch) for batch in found} == {dict}
    assert_same_batches(found, expected_batches(plan, keys=KEYS))
    for tensor in found[0].values():
        tensor.zero_()


def test_a_collate_fn_sees_a_dict_and_may_add_to_it(store):
    def weighed(batch):
        return {**batch, "weight": torch.ones(3)} if batch["sample_ids"][0, 2] % 2 else batch | {"name": "web"}

    plan = make_plan(store)
    found = list(DataLoader(BatchDataset(plan), batch_size=None, num_workers=2, collate_fn=weighed))
    assert all("weight" in batch or batch["name"] == "web" for batch in found)
    ours = [{key: batch[key] for key in ("input_ids", "sample_ids")} for batch in found]
    assert_same_batches(ours, expected_batches(plan))


def test_a_pass_that_ends_with_a_short_batch_is_whole_under_workers(store):
    plan = make_plan(store, steps=None, batch_size=64, options=gm.PlanOptions(shuffle=False, drop_last=False))
    loader = DataLoader(BatchDataset(plan), batch_size=None, num_workers=2)
    assert_same_batches(loader, expected_batches(plan))


def test_a_dataset_resumes_from_a_state_under_another_number_of_workers(store):
    plan = make_plan(store, options=SKIPS)
    dataset, expected = BatchDataset(plan), expected_batches(plan)
    for batches in (0, 1, 3, 4, len(expected)):
        resumed = BatchDataset(plan)
        resumed.resume(dataset.state_after(batches))
        loader = DataLoader(resumed, batch_size=None, num_workers=2)
        assert_same_batches(loader, expected[batches:])
    assert dataset.state_after(4) == _state_of_loader(plan, batches=4)
    with pytest.raises(gm.ConfigError, match="has no 18 batches"):
        dataset.state_after(18)


def _state_of_loader(plan, batches):
    loader = gm.Loader(plan, threads=0)
    for _ in zip(range(batches), loader, strict=False):
        pass
    return loader.state_dict()


# torch's DataLoader over SampleDataset

PHASES = gm.PlanOptions(phases=[gm.Phase(from_step=6, batch_size=12)], skip=[gm.Skip(from_step=2, to_step=4)])


@pytest.mark.parametrize(
    "options", [gm.PlanOptions(), PHASES, gm.PlanOptions(cut="pad")], ids=["plain", "phases", "pad"]
)
def test_items_are_the_rows_of_the_plan_in_its_order(store, options):
    plan = make_plan(store, steps=10, options=options)
    dataset = pickle.loads(pickle.dumps(SampleDataset(plan, keys=KEYS)))
    rows = [
        {key: array[i] for key, array in batch.items()}
        for batch in expected_batches(plan, keys=KEYS)
        for i in range(len(batch["input_ids"]))
    ]
    assert len(dataset) == len(rows)
    assert_same_batches((dataset[i] for i in range(len(rows))), rows)
    shuffled = np.random.default_rng(0).permutation(len(rows)).tolist()
    assert_same_batches(dataset.__getitems__(shuffled), [rows[i] for i in shuffled])
    with pytest.raises(IndexError):
        dataset[len(rows)]


def test_items_lose_a_document_from_the_step_at_which_it_is_excluded(store):
    whole = make_plan(store, steps=10, options=gm.PlanOptions(shuffle=False))
    document = whole.trace(6)[0].doc_id
    for from_step in (0, 6, 7):
        options = gm.PlanOptions(shuffle=False, exclude=[gm.Exclude(document, from_step=from_step)])
        plan = make_plan(store, steps=10, options=options)
        batches = DataLoader(SampleDataset(plan), batch_size=20)
        found = torch.cat([batch["loss_mask"] for batch in batches]).numpy()
        expected = np.concatenate([batch["loss_mask"] for batch in expected_batches(plan)])
        assert np.array_equal(found, expected)
        assert expected.all() == (from_step == 7)


def test_a_short_last_batch_has_no_items_of_padding(store):
    plan = make_plan(store, steps=None, batch_size=64, options=gm.PlanOptions(shuffle=False, drop_last=False))
    dataset = SampleDataset(plan)
    assert len(dataset) == store.num_tokens // 16
    assert dataset[len(dataset) - 1]["sample_ids"].tolist() == [0, 0, len(dataset) - 1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_distributed_sampler_gives_each_rank_the_batches_of_a_torch_loader(store, num_workers):
    plan = make_plan(store)
    dataset = SampleDataset(plan, keys=("labels",))
    for rank in range(2):
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=False)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=num_workers)
        assert_same_batches(loader, expected_batches(plan, rank, 2, keys=("labels",)))


def test_a_sampler_that_shuffles_sees_every_row_once(store):
    plan = make_plan(store, options=gm.PlanOptions(shuffle=False))
    dataset = SampleDataset(plan)
    sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(0))
    found = torch.cat([batch["sample_ids"] for batch in DataLoader(dataset, batch_size=7, sampler=sampler)])
    everything = np.concatenate([batch["sample_ids"] for batch in expected_batches(plan)])
    assert sorted(found.tolist()) == sorted(everything.tolist())
    assert found.tolist() != everything.tolist()


# Batches as wide as their longest row


def padded(store):
    plan = make_plan(store, seq_len=64, options=gm.PlanOptions(cut="pad"))
    options = {"keys": ("labels", "attention_mask"), "pad_to_multiple_of": 4}
    expected = list(gm.Loader(plan, threads=0, **options))
    assert len({batch["input_ids"].shape for batch in expected}) > 1
    return plan, options, expected


@pytest.mark.parametrize("workers", [0, 2])
def test_narrow_batches_are_the_same_under_every_loader_of_torch(store, workers):
    plan, options, expected = padded(store)
    dataset = BatchDataset(plan, **options)
    assert_same_batches(DataLoader(dataset, batch_size=None, num_workers=workers), expected)
    rows = DataLoader(SampleDataset(plan, **options), batch_size=8, num_workers=workers)
    assert_same_batches(rows, expected)
    assert_same_batches(TorchLoader(plan, **options), expected)


def test_rows_of_several_steps_that_are_asked_for_together_have_one_width(store):
    plan, options, expected = padded(store)
    data = SampleDataset(plan, **options)
    widths = [batch["input_ids"].shape[1] for batch in expected]
    rows = data.__getitems__([8 * step for step in range(20)])
    assert {len(row["input_ids"]) for row in rows} == {max(widths)}
    assert [len(data[8 * step]["attention_mask"]) for step in range(20)] == widths
    assert [int(row["attention_mask"].sum()) for row in rows] == [int(b["attention_mask"][0].sum()) for b in expected]
