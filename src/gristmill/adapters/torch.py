"""PyTorch: a plan's batches as tensors, by our own loader or under torch's and torchdata's.

    TorchLoader     tensors from reading threads, on a device if asked: no worker processes, exact state
    BatchDataset    for DataLoader(dataset, batch_size=None, num_workers=...) and StatefulDataLoader
    SampleDataset   map-style, one row an item: for samplers such as DistributedSampler

The order is the plan's under all three, whatever the number of ranks and of worker processes.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.extras import extra

with extra("torch", __name__):
    import torch
    from torch import distributed
    from torch.utils.data import Dataset, IterableDataset, get_worker_info

from gristmill.adapters.parcel import Tensors as Tensors
from gristmill.adapters.parcel import sendable
from gristmill.core.arguments import refuse
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.html import counted
from gristmill.core.values import Count, fits
from gristmill.loader.batch import Assembler, Group
from gristmill.loader.fill import Batch, as_keys
from gristmill.loader.groups import step_after
from gristmill.loader.loader import READAHEAD_BYTES, Loader, LoaderOptions, PlanLoader
from gristmill.loader.state import State, check_state, make_state
from gristmill.order.permute import use_compiled
from gristmill.order.plan import Plan, as_plan

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# Names that every framework gives to the dimensions whose ranks must see the same rows.
_SAME_ROWS = {"tp", "cp", "pp", "sp"}


def data_parallel_rank(mesh: DeviceMesh | None = None) -> tuple[int, int]:
    """(rank, world size) among those that split a batch: of a mesh, else of torch.distributed, else (0, 1).

    `mesh` holds the data-parallel dimensions alone, as `mesh["dp"]` does: ranks that have the same place in it (tensor,
    context and pipeline parallel ones) get the same rows.
    """
    if mesh is not None:
        return _rank_in_mesh(mesh)
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    # The variable decides nothing: it only tells that every process would read the whole batch unnoticed.
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            f"This is one of {os.environ['WORLD_SIZE']} processes (WORLD_SIZE), but torch.distributed is not set up: "
            "call init_process_group() before making the loader, or give rank= and world_size=."
        )
    return 0, 1


def _rank_in_mesh(mesh: DeviceMesh) -> tuple[int, int]:
    if not hasattr(mesh, "mesh_dim_names"):
        raise refuse("mesh", 'a DeviceMesh of the data-parallel dimensions, such as mesh["dp"]', mesh)
    if wrong := _SAME_ROWS.intersection(mesh.mesh_dim_names or ()):
        raise ConfigError(
            f"Ranks along {', '.join(sorted(wrong))} must see the same rows: give the data-parallel dimensions of "
            'the mesh alone, as in mesh=mesh["dp"].'
        )
    place = mesh.get_coordinate()
    if place is None:
        raise ConfigError(f"Rank {distributed.get_rank()} is not in the mesh that was given: give the one it is in.")
    return int(np.ravel_multi_index(place, mesh.shape)), mesh.size()


def resolve_rank(rank: int | None, world_size: int | None, mesh: DeviceMesh | None) -> tuple[int, int]:
    """(rank, world size) as they were given, or of torch.distributed."""
    if rank is None and world_size is None:
        return data_parallel_rank(mesh)
    if rank is None or world_size is None or mesh is not None:
        raise ConfigError("Give rank= and world_size= together, or mesh= alone, or none of them.")
    return rank, world_size


def tensors_of(batch: Batch) -> Tensors:
    """The same memory as tensors, which keep it from being used again."""
    return {key: torch.from_numpy(array) for key, array in batch.items()}


def as_device(device: torch.device | str) -> torch.device:
    """A torch device, or its name."""
    try:
        return torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise refuse("device", "a device of torch that this machine has, such as 'cpu' or 'cuda'", device) from error


class TorchLoader(PlanLoader[Tensors]):
    """A `Loader` of tensors, on `device` if one is given; state, step and stats are the loader's.

    rank and world_size: asked of torch.distributed unless given; see `data_parallel_rank` for mesh. `options` are the
    loader's: keys, threads, readahead_bytes, max_docs, pad_to_multiple_of. Where there is CUDA
    (and the device is not another) batches lie in pinned memory and are copied to the device asynchronously, on the
    current stream: 64 x 2,048 ids are 1 MiB, 40 microseconds of PCIe 4, which is worth no stream of its own.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        device: torch.device | str | None = None,
        mesh: DeviceMesh | None = None,
        **options: Unpack[LoaderOptions],
    ) -> None:
        super().__init__(plan, *resolve_rank(rank, world_size, mesh), **options)
        self.device = None if device is None else as_device(device)

    def _as_batches(self, arrays: Batch) -> Iterator[Tensors]:
        # Not by `unbind`: its tensors share a version counter, and changing one would spoil the backward of another.
        tensors = (map(torch.from_numpy, stacked) for stacked in arrays.values())
        batches = (dict(zip(arrays, batch, strict=True)) for batch in zip(*tensors, strict=True))
        return (placed(batch, self.device) for batch in batches) if pins(self.device) or self.device else batches


def pins(device: torch.device | None) -> bool:
    """Whether batches for a device, or for none, lie in pinned memory."""
    return torch.cuda.is_available() and (device is None or device.type == "cuda")


def placed(tensors: Tensors, device: torch.device | None) -> Tensors:
    """The batch in pinned memory, where that is of use, and on its device."""
    pinned = pins(device)
    if pinned:
        tensors = {key: tensor.pin_memory() for key, tensor in tensors.items()}
    if device is None:
        return tensors
    # Torch keeps pinned memory until the copy is done; memory of ours would be filled anew under an unfinished one.
    return {key: tensor.to(device, non_blocking=pinned) for key, tensor in tensors.items()}


class BatchDataset(IterableDataset[Tensors]):
    """The batches of one rank as an IterableDataset: `DataLoader(BatchDataset(plan), batch_size=None, num_workers=n)`.

    Worker w of n serves every n-th batch, so the order is the same for every n. Each pass goes from the step of
    `resume` (0 unless called) to the plan's end. Under torchdata's StatefulDataLoader the iterator keeps the state.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        mesh: DeviceMesh | None = None,
        keys: str | Sequence[str] = (),
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        self.plan = as_plan("plan", plan)
        self._start = 0
        ranks = resolve_rank(rank, world_size, mesh)
        self._loader = Loader(
            plan, *ranks, keys=keys, threads=0, max_docs=max_docs, pad_to_multiple_of=pad_to_multiple_of
        )
        # Loads the compiled kernels (half a second), which forked workers then inherit.
        self._loader.batch(plan.skips.next_served(0))

    def __repr__(self) -> str:
        return f"BatchDataset({self._loader!r})"

    def __len__(self) -> int:
        """Batches of the whole plan; TypeError if it is endless."""
        return len(self.plan)

    def __iter__(self) -> BatchIterator:
        """The batches that are this worker process's to serve."""
        worker = get_worker_info()
        return BatchIterator(self._loader, self._start, *((worker.id, worker.num_workers) if worker else (0, 1)))

    def resume(self, state: Mapping[str, object]) -> None:
        """Let passes start where `state` was taken: by a loader, `state_after` or `state_from_snapshot`."""
        self._start = check_state(self.plan, state)

    def state_after(self, batches: int) -> State:
        """The loader's state once this many batches of a pass are trained on: torch's own DataLoader keeps none."""
        step = step_after(self.plan, self._start, batches)
        if batches < 0 or (self.plan.total_steps is not None and step > self.plan.total_steps):
            raise ConfigError(f"A pass from step {self._start:,} has no {batches:,} batches.")
        return make_state(self.plan, step)


class WorkerState(State):
    """A loader's state, and among how many workers the next batch is this one's."""

    workers: int


class BatchIterator:
    """What worker `worker` of `workers` serves: from `start` on every `workers`-th batch that the plan serves."""

    def __init__(self, loader: Loader, start: int, worker: int, workers: int) -> None:
        self._loader, self._workers = loader, workers
        self._seek(step_after(loader.plan, start, worker))

    def _seek(self, step: int) -> None:
        self._step, self._batches = step, self._loader.batches_from(step, self._workers)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Tensors:
        step, batch = next(self._batches)
        self._step = step_after(self._loader.plan, step, self._workers)
        return sendable(tensors_of(batch))

    def state_dict(self) -> WorkerState:
        """The state before this worker's next batch."""
        total = self._loader.plan.total_steps
        step = self._step if total is None else min(self._step, total)
        return {**make_state(self._loader.plan, step), "workers": self._workers}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken, by the same worker of as many."""
        step = check_state(self._loader.plan, state)
        if state.get("workers") != self._workers:
            raise StateError(
                f"The snapshot was taken with {state.get('workers')} workers and StatefulDataLoader cannot load it "
                f"with {self._workers}: call dataset.resume(state_from_snapshot(plan, snapshot)) instead."
            )
        self._seek(step)


def state_from_snapshot(plan: Plan, snapshot: Mapping[str, Any]) -> State:
    """The loader's own state at the place where a StatefulDataLoader over a BatchDataset took `snapshot`.

    It fits any number of workers (`BatchDataset.resume`) and of ranks, and any loader of ours.
    """
    plan = as_plan("plan", plan)
    states = [inside(holder, "fetcher_state", "dataset_iter_state") for holder in holders_of(snapshot)]
    since = steps_since(snapshot)
    if not states or None in states or since is None:
        raise StateError("This is no snapshot of a StatefulDataLoader over a BatchDataset.")
    # The worker whose turn it is has the earliest step.
    earliest = min(check_state(plan, state) for state in states)
    return make_state(plan, step_after(plan, earliest, since))


def holders_of(snapshot: object) -> list[object]:
    """What holds the states of a snapshot's iterators: itself without workers, else one a worker."""
    workers = inside(snapshot, "_snapshot", "_worker_snapshots")
    return list(workers.values()) if isinstance(workers, Mapping) else [snapshot]


def steps_since(snapshot: object) -> int | None:
    """The steps from where the states of a snapshot were taken to where it was; None if it is damaged."""
    steps = inside(snapshot, "_steps_since_snapshot")
    return 0 if steps is None else steps if fits(steps, Count) else None


def inside(value: object, *keys: str) -> Any:
    """What lies under keys in mappings in mappings; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class SampleDataset(Dataset[Tensors]):
    """The rows of a plan as a map-style Dataset: item i is row i % batch_size of batch i // batch_size.

    Rows that are asked for together have one width, that of the widest of their batches.

    With DistributedSampler(shuffle=False) and batch_size / world_size rows a batch, DataLoader gives each rank the
    batches of a `TorchLoader`. With a sampler that shuffles, PlanOptions(shuffle=False) spares the plan's own shuffle.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        keys: str | Sequence[str] = (),
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        if as_plan("plan", plan).total_steps is None:
            raise ConfigError("A map-style data set has an end: give the plan steps=.")
        self.plan, self.keys, self.pad_to_multiple_of = plan, as_keys(keys), pad_to_multiple_of
        self._assembler = Assembler(
            plan, self.keys, max_docs, buffer_bytes=READAHEAD_BYTES, pad_to_multiple_of=pad_to_multiple_of
        )
        skips = plan.skips
        ends = [(segment, segment.to_step or 0) for segment in self.plan.segments]
        sizes = [(skips.served(end) - skips.served(segment.from_step)) * segment.batch_size for segment, end in ends]
        self._firsts = [0, *itertools.accumulate(sizes)]
        last = skips.last_served(ends[-1][1])
        self._length = self._firsts[-1] - self.plan.segment(last).batch_size + len(self.plan.samples(last))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(len(self), 'row')} of {self.plan!r})"

    def __len__(self) -> int:
        """Rows in all batches; the last batch of a pass may be short."""
        return self._length

    def __getitem__(self, index: int) -> Tensors:
        """One row: the keys of a batch, without their first dimension."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Tensors]:
        """Many rows in one go: what DataLoader asks for."""
        places = [self._locate(index) for index in indices]
        groups: dict[int, list[int]] = {}
        for i, (step, _) in enumerate(places):
            groups.setdefault(self._built_with(step), []).append(i)
        orders = {each: self.plan.samples(each) for each in {each for each, _ in places}}
        widths = self._widest(orders)
        items: list[Tensors] = [{}] * len(places)
        for step, wanted in groups.items():
            samples = np.stack([orders[each][row] for each, row in (places[i] for i in wanted)])
            for i, item in zip(wanted, self._rows(step, samples, widths), strict=True):
                items[i] = item
        return items

    def _widest(self, orders: Mapping[int, Ints]) -> Ints | None:
        """The columns of rows from these steps, where they are padded to the longest."""
        found = [self._assembler.widths(self.plan.segment(step), samples) for step, samples in orders.items()]
        widths = [width for width in found if width is not None]
        return np.max(widths, axis=0) if widths else None

    def _built_with(self, step: int) -> int:
        """The first step whose rows can be built with those of `step`; what is excluded depends on the step."""
        return step if self.plan.exclusions else self.plan.segment(step).from_step

    def _locate(self, index: int) -> tuple[int, int]:
        """Step and row of an item."""
        if not 0 <= index < self._length:
            raise IndexError(f"There is no item {index} in {self._length:,}.")
        k = bisect.bisect_right(self._firsts, index) - 1
        segment = self.plan.segments[k]
        batch, row = divmod(index - self._firsts[k], segment.batch_size)
        return self.plan.skips.next_served(step_after(self.plan, segment.from_step, batch)), row

    def _rows(self, step: int, samples: Ints, widths: Ints | None) -> list[Tensors]:
        """The rows of samples, all built as those of `step` are."""
        use_compiled()
        group = Group(range(step, step + 1), self.plan.segment(step), samples, len(samples), widths)
        (batch, _), *_ = self._assembler.build(group)
        tensors = tensors_of(batch)
        return [sendable({key: tensor[i] for key, tensor in tensors.items()}) for i in range(len(samples))]
