"""Batches between processes: the same numbers in the same types, whatever they were on the way."""

from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gristmill.adapters import parcel
from gristmill.adapters.parcel import Parcel, sendable

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 700))


def sent(batch):
    return ForkingPickler.loads(ForkingPickler.dumps(Parcel(batch)))


@given(SHAPES.flatmap(lambda shape: arrays.arrays(st.sampled_from([np.int64, np.int32, np.bool_]), shape)))
def test_any_numbers_arrive_as_they_were_sent(array):
    found = sent({"input_ids": torch.from_numpy(array)})
    assert type(found) is dict
    assert found["input_ids"].numpy().dtype == array.dtype
    assert np.array_equal(found["input_ids"].numpy(), array)


@pytest.mark.parametrize("low", [0, -100, -(2**31), -(2**63)])
@pytest.mark.parametrize("high", [1, 2**15, 2**16 - 1, 2**31, 2**63 - 1])
def test_the_ends_of_every_type_arrive(low, high):
    labels = torch.full((4, 1024), high, dtype=torch.int64)
    labels[:, -1] = low
    assert torch.equal(sent({"labels": labels})["labels"], labels)


def test_what_is_sent_is_as_narrow_as_its_numbers():
    ids = torch.randint(0, 50_000, (64, 256))
    assert len(ForkingPickler.dumps(Parcel(input_ids=ids))) < 1.1 * 2 * ids.numel()


def test_batches_that_are_kept_are_not_written_over_by_later_ones():
    batches = [{"input_ids": torch.full((8, 512), i)} for i in range(20)]
    kept = [sent(batch)["input_ids"] for batch in batches]
    for i, tensor in enumerate(kept):
        assert (tensor == i).all()
        tensor += 1  # and they are ours to change


def test_memory_is_used_again_when_a_batch_is_gone():
    batch = {"input_ids": torch.ones((8, 512), dtype=torch.int64)}
    assert len({sent(batch)["input_ids"].data_ptr() for _ in range(5)}) == 1


def test_what_a_collate_fn_adds_travels_too():
    batch = {"input_ids": torch.ones((8, 512), dtype=torch.int64), "weight": torch.rand(3), "name": "web"}
    found = sent(batch)
    assert list(found) == list(batch)
    assert found["name"] == "web"
    assert all(torch.equal(found[key], batch[key]) for key in ("input_ids", "weight"))


def test_only_a_worker_process_makes_parcels(monkeypatch):
    batch = {"input_ids": torch.ones(3)}
    assert sendable(batch) is batch
    monkeypatch.setattr(parcel, "get_worker_info", lambda: SimpleNamespace(id=0))
    assert type(sendable(batch)) is Parcel
