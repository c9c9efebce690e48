"""Streams in PyTorch: tensors, worker processes, snapshots, and ranks that gather their states."""

from __future__ import annotations

import copy
import json
import multiprocessing
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import distributed
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import gristmill as gm
from gristmill.adapters.streams import StreamDataset, TorchStreamLoader, stream_state_from_snapshot
from gristmill.adapters.torch import state_from_snapshot

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'set_vital' is deprecated")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams")
    for i in range(3):
        rows = ({"id": f"{i}-{j}", "text": f"Document {i}-{j}. " * (1 + (7 * j) % 11)} for j in range(40))
        (made / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def make(folder: Path | str, **options: Any) -> Any:
    return gm.stream(f"{folder}/*.jsonl").tokenize("byte").pack(64).batch(4, seed=1, **options)


def ids(batches: Any) -> list[Any]:
    return [np.asarray(batch["input_ids"]).tolist() for batch in batches]


def test_tensors_hold_what_the_numpy_loader_gives(folder: Path) -> None:
    loader = TorchStreamLoader(make(folder), keys="labels", device="cpu")
    for tensors, batch in zip(islice(loader, 5), make(folder).loader(keys="labels"), strict=False):
        assert tensors.keys() == batch.keys()
        assert all(np.array_equal(tensors[key].numpy(), batch[key]) for key in batch)
    assert loader.step == 5 and loader.stats()["batches"] == 5
    again = TorchStreamLoader(make(folder))
    again.load_state_dict(loader.state_dict())
    assert ids(islice(again, 2)) == ids(islice(loader, 2))


@pytest.mark.parametrize(("workers", "context"), [(0, None), (1, "fork"), (2, "fork"), (4, "fork"), (2, "spawn")])
def test_the_order_is_the_same_for_any_number_of_worker_processes(folder: Path, workers: int, context: Any) -> None:
    dataset = StreamDataset(make(folder, epochs=1), threads=1)
    expected = ids(make(folder, epochs=1).loader())
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert ids(loader) == expected and ids(loader) == expected, "each pass begins anew"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_snapshot_resumes_exactly_with_as_many_workers_and_its_state_with_any(folder: Path, workers: int) -> None:
    stream = make(folder, epochs=1)
    expected = ids(stream.loader())

    def made(count: int, dataset: Any = None) -> Any:
        return StatefulDataLoader(dataset or StreamDataset(stream, threads=1), batch_size=None, num_workers=count)

    loader = made(workers)
    found = iter(loader)
    assert ids(islice(found, 7)) == expected[:7]
    snapshot = copy.deepcopy(loader.state_dict())
    resumed = made(workers)
    resumed.load_state_dict(snapshot)
    assert ids(resumed) == expected[7:]
    state = stream_state_from_snapshot(snapshot)
    dataset = StreamDataset(stream, threads=1)
    dataset.resume(state)
    assert ids(made((workers + 1) % 3, dataset)) == expected[7:]
    own = stream.loader()
    own.load_state_dict(state)
    assert ids(own) == expected[7:]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_a_loader_that_would_make_batches_of_batches_is_refused(folder: Path, kind: Any, workers: int) -> None:
    with pytest.raises(gm.ConfigError, match=r"is a batch already: say DataLoader\(dataset, batch_size=None\)"):
        next(iter(kind(StreamDataset(make(folder)), num_workers=workers)))


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_loader_hands_on_is_a_plain_dict(folder: Path, workers: int) -> None:
    for options in ({}, {"collate_fn": dict}):
        loader = DataLoader(StreamDataset(make(folder)), batch_size=None, num_workers=workers, **options)
        assert type(next(iter(loader))) is dict


def test_functions_that_cannot_be_sent_to_a_spawned_worker_are_told(folder: Path) -> None:
    stream = gm.stream(f"{folder}/*.jsonl").filter(lambda row: True).tokenize("byte").pack(64).batch(4)
    loader = DataLoader(
        StreamDataset(stream),
        batch_size=None,
        num_workers=1,
        multiprocessing_context=multiprocessing.get_context("spawn"),
    )
    with pytest.raises(gm.ConfigError, match="define it at the top of a module, or use threads, with num_workers=0"):
        next(iter(loader))
    assert copy.deepcopy(StreamDataset(stream)), "which sends nothing"


def of_iterator(state: Any) -> Any:
    return {"fetcher_state": {"dataset_iter_state": state}}


@pytest.mark.parametrize("snapshot", [
    None, {}, {"_snapshot": {}}, {"_snapshot": None}, {"_snapshot": {"_worker_snapshots": []}},
    {"_snapshot": {"_worker_snapshots": {"w": None}}}, {"fetcher_state": 1}, of_iterator({}),
    *map(of_iterator, ({"stream": None}, {"stream": 1}, {"stream": "x"})),
    {**of_iterator({"stream": {}}), "_steps_since_snapshot": "x"},
])  # fmt: skip
def test_what_is_no_snapshot_is_refused(folder: Path, snapshot: Any) -> None:
    with pytest.raises(gm.StateError, match="snapshot"):
        stream_state_from_snapshot(snapshot)
    with pytest.raises(gm.StateError):
        state_from_snapshot(Mock(spec=gm.Plan), snapshot)


def test_a_snapshot_between_two_that_hold_places_says_where_to_take_it(folder: Path) -> None:
    loader = StatefulDataLoader(StreamDataset(make(folder)), batch_size=None, num_workers=1, snapshot_every_n_steps=3)
    expected, found = ids(islice(make(folder).loader(), 7)), iter(loader)
    for step in range(1, 7):
        next(found)
        snapshot = copy.deepcopy(loader.state_dict())
        if step % 3:
            with pytest.raises(gm.StateError, match=rf"of {step % 3} steps? before it: .* snapshot_every_n_steps"):
                stream_state_from_snapshot(snapshot)
        else:
            own = make(folder).loader()
            own.load_state_dict(stream_state_from_snapshot(snapshot))
            assert ids(islice(own, 1)) == [expected[step]]


@pytest.mark.parametrize("options", [{"mesh": "x"}, {"mesh": 3}, {"device": 2**63}, {"device": -(2**80)}])
def test_a_mesh_or_a_device_that_is_none_is_refused(folder: Path, options: Any) -> None:
    with pytest.raises(gm.ConfigError, match=r"must be a (DeviceMesh|device)"):
        TorchStreamLoader(make(folder), **options)


@pytest.mark.parametrize("wrong", [None, 3, "stream", object()])
def test_what_is_no_stream_is_refused(wrong: Any) -> None:
    for kind in (TorchStreamLoader, StreamDataset):
        with pytest.raises(gm.ConfigError, match="stream"):
            kind(wrong)


def _trained(rank: int, world: int, port: int, folder: str, state: Any, queue: Any) -> None:
    """A rank of a gloo group: a few steps, the gathered state, and how a stream that ends does so."""
    store = distributed.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=60))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    loader = TorchStreamLoader(make(folder), threads=0)
    if state:
        loader.load_state_dict(state)
    batches = ids(islice(loader, 3))
    kept = loader.state_dict()
    ending = [batch["loss_mask"].sum().item() for batch in TorchStreamLoader(make(folder, epochs=1), threads=0)]
    queue.put((rank, batches, kept, ending))
    distributed.barrier()
    distributed.destroy_process_group()


def on_ranks(world: int, folder: Path, state: Any = None) -> list[Any]:
    context = multiprocessing.get_context("forkserver")  # six ranks share one import of torch
    context.set_forkserver_preload(["torch", "torchdata.stateful_dataloader", "gristmill.adapters.streams"])
    queue, meeting = context.Queue(), distributed.TCPStore("127.0.0.1", 0, is_master=True)
    arguments = [(rank, world, meeting.port, str(folder), state, queue) for rank in range(world)]
    processes = [context.Process(target=_trained, args=each) for each in arguments]
    for process in processes:
        process.start()
    found = sorted(queue.get(timeout=120) for _ in range(world))
    for process in processes:
        process.join()
    return found


def test_ranks_gather_a_whole_state_and_end_together(folder: Path) -> None:
    one = make(folder).loader(threads=0)
    expected = ids(islice(one, 3))
    two = on_ranks(2, folder)
    for step in range(3):
        assert [two[row % 2][1][step][row // 2] for row in range(4)] == expected[step]
    assert two[0][2] == two[1][2] == one.state_dict()
    served = [batch["loss_mask"].sum().item() for batch in make(folder, epochs=1).loader()]
    assert [sum(counts) for counts in zip(two[0][3], two[1][3], strict=True)] == served
    more = ids(islice(one, 3))
    four = on_ranks(4, folder, two[0][2])
    assert [[four[row][1][step][0] for row in range(4)] for step in range(3)] == more
