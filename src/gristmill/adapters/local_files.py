"""Local token files for torch's own DataLoader: `.npy` or `.bin` files in, (train, val) loaders out.

train, val = create_dataloaders("train.bin", "val.bin", batch_size=8, max_length=1024)
for batch in train: ...              # {"input_ids": int64 (8, 1024), "labels": the token after each}
train.state_dict()                   # goes on in the middle of a pass, with any number of workers
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gristmill.core.extras import extra

with extra("torch", __name__):
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from gristmill.adapters.torch import data_parallel_rank
from gristmill.core.arguments import as_whole
from gristmill.core.errors import ConfigError
from gristmill.loader.batch import Assembler, Group
from gristmill.loader.fill import Batch
from gristmill.loader.loader import READAHEAD_BYTES, Loader
from gristmill.loader.state import State
from gristmill.order.options import PlanOptions, check_positive
from gristmill.order.plan import Plan
from gristmill.places.door import as_addresses
from gristmill.store.opening import PathLike, open_store
from gristmill.store.reader import Store

Sample = dict[str, torch.Tensor]
Paths = PathLike | Sequence[PathLike]
# A single source without steps= is one pass; this is more steps than any run has.
ENDLESS = 1 << 40


class LocalTokenizedDatasetFixed(Dataset[Sample]):
    """Map-style: sequence i is tokens [i * max_length, (i + 1) * max_length) of the file, in the file's order.

    The label of the file's last token is -100. Sampling and shuffling are the DataLoader's: DistributedSampler works.
    """

    def __init__(self, data_path: Paths, max_length: int, dtype: str | None = None) -> None:
        self.store, self.max_length = _open_for(data_path, max_length, dtype), max_length
        plan = Plan({"data": self.store}, seq_len=max_length, batch_size=1, options=PlanOptions(shuffle=False))
        self._segment = plan.segment(0)
        self._assembler = Assembler(plan, ("labels",), None, buffer_bytes=READAHEAD_BYTES)
        self[0]  # loads the compiled kernels (half a second), which forked workers then inherit

    def __repr__(self) -> str:
        return f"LocalTokenizedDatasetFixed({_describe(self.store, self.max_length)})"

    def __len__(self) -> int:
        return self.store.num_tokens // self.max_length

    def __getitem__(self, index: int) -> Sample:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Many sequences in one compiled pass: what DataLoader asks for."""
        known = range(len(self))
        samples = np.array([(0, 0, known[index]) for index in indices], dtype=np.int64)
        (batch, _), *_ = self._assembler.build(Group(range(1), self._segment, samples, len(samples)))
        return _rows(batch)


class LocalTokenizedDataset(IterableDataset[Sample]):
    """Iterable: the same sequences in an order drawn from `seed`, another one in each pass.

    `batch_size` is what the DataLoader around it makes batches of: known here, the batches are the same for every
    number of workers. Under torch.distributed each rank gets its own sequences. A pass is whole batches; the sequences
    that it leaves over are the first of the next one.
    """

    def __init__(
        self, data_path: Paths, max_length: int, batch_size: int = 1, seed: int = 0, dtype: str | None = None
    ) -> None:
        check_positive(batch_size=as_whole("batch_size", batch_size))
        seed = as_whole("seed", seed, None)
        self.store = _open_for(data_path, max_length, dtype)
        rank, world_size = data_parallel_rank()
        rows, sequences = batch_size * world_size, self.store.num_tokens // max_length
        if sequences < rows:
            raise ConfigError(
                f"{self.store.describe()} has {sequences:,} sequences of {max_length:,} tokens, too few for a batch of "
                f"{rows:,}: lower batch_size or max_length."
            )
        plan = Plan({"data": self.store}, seq_len=max_length, batch_size=rows, seed=seed, steps=ENDLESS)
        self.loader = Loader(plan, rank, world_size, keys=("labels",), threads=0)
        self.loader.batch(0)  # loads the compiled kernels, as above
        self.batch_size, self.batches = batch_size, sequences // rows

    def __repr__(self) -> str:
        return f"LocalTokenizedDataset({_describe(self.store, self.loader.plan.seq_len)})"

    def __len__(self) -> int:
        """Sequences of one pass on this rank."""
        return self.batches * self.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be number `epoch`; only for a plain DataLoader, a ResumableDataLoader counts by itself."""
        self.loader.seek(epoch * self.batches)

    def steps(self) -> range:
        """The steps from here to the end of the pass."""
        step = self.loader.step
        return range(step, step - step % self.batches + self.batches)

    def __iter__(self) -> Iterator[Sample]:
        """This worker's share: whole batches, in the turn in which the DataLoader asks its workers."""
        worker, steps = get_worker_info(), self.steps()
        own = steps[worker.id :: worker.num_workers] if worker else steps
        batches = itertools.islice(self.loader.batches_from(own.start, own.step), len(own))
        return itertools.chain.from_iterable(_rows(batch) for _, batch in batches)


class ResumableDataLoader(DataLoader[Sample]):
    """A DataLoader over a LocalTokenizedDataset that counts the batches it has handed out, not those prefetched.

    Its state is that of `gristmill.Loader`, so it may be loaded with another number of workers. A loop that is broken
    off goes on where it stopped; a loop that ran to the end of its pass is followed by the next pass.
    """

    dataset: LocalTokenizedDataset

    def __iter__(self) -> Iterator[Sample]:  # type: ignore[override]
        loader = self.dataset.loader
        for step, batch in zip(self.dataset.steps(), super().__iter__(), strict=True):
            loader.seek(step + 1)
            yield batch
            if loader.step != step + 1:  # a state was loaded inside the loop: it takes effect at once
                yield from self
                return

    def state_dict(self) -> State:
        """Under 1 KB of JSON, the same on every rank."""
        return self.dataset.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on after the last batch that was handed out when the state was taken."""
        self.dataset.loader.load_state_dict(state)


def create_dataloaders(
    train_data_path: Paths,
    val_data_path: Paths,
    batch_size: int = 8,
    max_length: int = 1024,
    num_workers: int = 0,
    prefetch_factor: int = 2,
    seed: int = 0,
    dtype: str | None = None,
) -> tuple[ResumableDataLoader, DataLoader[Sample]]:
    """(train, val) loaders over token files, whose tokens and sequences are printed.

    train is shuffled by `seed` and resumable; val is every sequence in order, all of them on every rank, its last batch
    maybe short. `batch_size` counts the sequences of one rank. `dtype` is for files that do not tell it themselves.
    """
    for name, paths in (("train_data_path", train_data_path), ("val_data_path", val_data_path)):
        as_addresses(name, paths)
    for name, number in (("num_workers", num_workers), ("prefetch_factor", prefetch_factor)):
        as_whole(name, number, 0)
    train_data = LocalTokenizedDataset(train_data_path, max_length, batch_size, seed, dtype)
    val_data = LocalTokenizedDatasetFixed(val_data_path, max_length, dtype)
    if train_data.loader.rank == 0:
        print(f"train: {_describe(train_data.store, max_length)}, {train_data.batches:,} batches a pass")
        print(f"val: {_describe(val_data.store, max_length)}")
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "num_workers": num_workers,
        "prefetch_factor": prefetch_factor if num_workers else None,
        "pin_memory": torch.cuda.is_available(),
        # Each pass draws a number for its workers: from here, so that the trainer's own random state stays as it is.
        "generator": torch.Generator().manual_seed(seed),
    }
    return ResumableDataLoader(train_data, **options), DataLoader(val_data, **options)


def _open_for(data_path: Paths, max_length: int, dtype: str | None) -> Store:
    check_positive(max_length=as_whole("max_length", max_length))
    store = open_store([os.fspath(path) for path in as_addresses("data_path", data_path)], dtype)
    if store.num_tokens < max_length:
        raise ConfigError(
            f"{store.describe()} has {store.num_tokens:,} tokens, too few for one sequence of {max_length:,}: "
            "lower max_length or give a longer file."
        )
    return store


def _rows(batch: Batch) -> list[Sample]:
    ids, labels = torch.from_numpy(batch["input_ids"]), torch.from_numpy(batch["labels"])
    return [{"input_ids": ids[row], "labels": labels[row]} for row in range(len(ids))]


def _describe(store: Store, max_length: int) -> str:
    sequences, rest = divmod(store.num_tokens, max_length)
    left = f" ({rest:,} tokens at its end fill none)" if rest else ""
    figures = f"{store.num_tokens:,} {store.dtype} tokens, {sequences:,} sequences of {max_length:,}{left}"
    return f"{store.describe()}: {figures}"
