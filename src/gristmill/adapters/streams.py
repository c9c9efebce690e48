"""PyTorch: the batches of a stream as tensors, by threads of our own or under torch's and torchdata's loaders.

    TorchStreamLoader   tensors, on a device if asked; where a process group is, its state is that of all ranks
    StreamDataset       for DataLoader(dataset, batch_size=None, num_workers=...) and StatefulDataLoader

The order is the stream's under both, whatever the number of ranks and of worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, Unpack

from gristmill.core.extras import extra

with extra("torch", __name__):
    import torch
    from torch import distributed
    from torch.utils.data import IterableDataset, get_worker_info

from gristmill.adapters.parcel import Tensors, Whole
from gristmill.adapters.torch import (
    as_device,
    holders_of,
    inside,
    placed,
    resolve_rank,
    steps_since,
    tensors_of,
)
from gristmill.arrow.left import join_states
from gristmill.core.arguments import PathLike, refuse
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.html import counted
from gristmill.loader.fill import Batch
from gristmill.loader.loader import StreamOptions
from gristmill.loader.observed import Observer
from gristmill.order.plan import Plan

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

State = Mapping[str, object]


class StreamLoader(Protocol):
    """The batches of one rank, as `gm.stream(...).batch(...).loader()` gives them."""

    step: int
    rank: int
    world_size: int

    def __iter__(self) -> Iterator[Batch]: ...
    def padding(self) -> Batch: ...
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: State) -> None: ...
    def restore(self, state: State) -> None: ...
    def merge(self, states: Sequence[State]) -> State: ...
    def stats(self) -> dict[str, object]: ...
    def observe(self, observer: Observer) -> None: ...
    def record(self, path: PathLike) -> None: ...
    def record_loss(self, loss: object, step: int | None = None) -> None: ...
    def close(self, wait: bool = False) -> None: ...


class Streamed(Protocol):
    """What `gm.stream(...).batch(...)` is."""

    epochs: int | None
    batch_size: int
    loader: Callable[..., Any]

    @property
    def first(self) -> Any: ...


def is_streamed(value: object) -> TypeGuard[Streamed]:
    """Whether this is a stream with batches, where others take a plan."""
    return hasattr(value, "loader") and hasattr(value, "epochs")


def as_plan_or_stream(name: str, value: object) -> Any:
    """A plan, or a stream with batches."""
    if isinstance(value, Plan) or is_streamed(value):
        return value
    raise refuse(name, "a plan, or a stream with batches: gm.stream(...).tokenize(...).pack(...).batch(...)", value)


def as_streamed(value: Streamed) -> Streamed:
    """A stream with batches."""
    if not is_streamed(value):
        raise refuse("stream", "a stream with batches: gm.stream(...).tokenize(...).pack(...).batch(...)", value)
    return value


def _loader(
    stream: Streamed, rank: int | None, world_size: int | None, mesh: DeviceMesh | None, options: StreamOptions
) -> StreamLoader:
    made: StreamLoader = as_streamed(stream).loader(*resolve_rank(rank, world_size, mesh), **options)
    return made


class TorchStreamLoader:
    """The batches of a stream as tensors, on `device` if one is given; `options` are those of its loader.

    rank and world_size: asked of torch.distributed unless given; see `data_parallel_rank` for mesh. Where CUDA is,
    batches lie in pinned memory and are copied to the device asynchronously. Where a process group of as many ranks is,
    all of them call `state_dict`, and each gets the state of all lanes; and a stream that ends does so on all ranks at
    the same step: those that have no rows left give padding.
    """

    def __init__(
        self,
        stream: Streamed,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        device: torch.device | str | None = None,
        mesh: DeviceMesh | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._loader = _loader(stream, rank, world_size, mesh, options)
        self._ends, self._start = stream.epochs is not None, self._loader.state_dict()
        self.observe, self.record, self.record_loss = (
            self._loader.observe,
            self._loader.record,
            self._loader.record_loss,
        )
        self.device = None if device is None else as_device(device)

    @property
    def step(self) -> int:
        """The next step to serve."""
        return self._loader.step

    def __iter__(self) -> Iterator[Tensors]:
        for batch in self._until_all_end() if self._ends and self._shared else self._loader:
            yield placed(tensors_of(batch), self.device)

    def _until_all_end(self) -> Iterator[Batch]:
        own = iter(self._loader)
        while True:
            batch = next(own, None)
            left = torch.tensor([batch is not None], dtype=torch.int32, device=self._where)
            distributed.all_reduce(left)
            if not int(left):
                return
            if batch is None:
                batch = self._loader.padding()
            yield batch

    @property
    def _shared(self) -> bool:
        """Whether there is a process group whose ranks are those of the stream."""
        there = distributed.is_available() and distributed.is_initialized()
        return there and self._loader.world_size > 1 and distributed.get_world_size() == self._loader.world_size

    @property
    def _where(self) -> torch.device | None:
        """Where ranks can reduce a number: NCCL does so on GPUs alone."""
        return self.device or torch.device("cuda") if distributed.get_backend() == "nccl" else None

    def state_dict(self) -> dict[str, object]:
        """The state to keep with a checkpoint; with a process group, called by all ranks, that of all lanes."""
        own: dict[str, object] = self._loader.state_dict()
        if not self._shared:
            return own
        states: list[dict[str, object]] = [own] * self._loader.world_size
        distributed.all_gather_object(states, own)
        return dict(self._loader.merge(states))

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken, on any number of ranks."""
        self._loader.load_state_dict(state)

    def rewind(self) -> None:
        """Begin again at the stream's start."""
        self._loader.restore(self._start)

    def padding(self) -> Tensors:
        """A batch of padding alone."""
        return tensors_of(self._loader.padding())

    def stats(self) -> dict[str, object]:
        """What the stream's loader counts: batches, tokens, time waited, what was dropped and why."""
        return self._loader.stats()

    def close(self, wait: bool = False) -> None:
        """Stop the threads."""
        self._loader.close(wait)


class StreamDataset(IterableDataset[Tensors]):
    """One rank as an IterableDataset: `DataLoader(StreamDataset(stream), batch_size=None, num_workers=n)`.

    A lane goes on from where it was, so one worker process serves all batches, by `threads` of its own; any others have
    nothing to do. Under torchdata's StatefulDataLoader the iterator keeps the state; torch's own DataLoader keeps none.
    """

    def __init__(
        self,
        stream: Streamed,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        mesh: DeviceMesh | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._loader = _loader(stream, rank, world_size, mesh, options)
        self._start: State = self._loader.state_dict()

    def __getstate__(self) -> dict[str, object]:
        if get_spawning_popen() is not None:  # on its way to a process, and not to a file or to Spark
            try:
                ForkingPickler.dumps(self._loader)
            except (PicklingError, AttributeError, TypeError) as error:
                raise ConfigError(
                    f"Worker processes that are spawned get the stream's functions, and one of them cannot be sent "
                    f"({error}): define it at the top of a module, or use threads, with num_workers=0."
                ) from error
        return dict(vars(self))

    def __iter__(self) -> StreamIterator:
        worker = get_worker_info()
        return StreamIterator(self._loader, self._start, worker is None or worker.id == 0)

    def resume(self, state: State) -> None:
        """Let passes start where `state`, of all lanes, was taken: by a loader, or `stream_state_from_snapshot`."""
        self._loader.load_state_dict(state)
        self._start = self._loader.state_dict()


class StreamIterator:
    """What one worker serves: everything, or nothing."""

    def __init__(self, loader: StreamLoader, start: State, serves: bool) -> None:
        self._loader, self._serves = loader, serves
        if serves:
            loader.restore(start)
        self._batches = iter(loader) if serves else iter(())

    def __iter__(self) -> StreamIterator:
        return self

    def __next__(self) -> Tensors:
        return Whole(tensors_of(next(self._batches)))

    def state_dict(self) -> dict[str, object]:
        """The state before the next batch, of this rank's lanes."""
        return {"stream": dict(self._loader.state_dict())} if self._serves else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, on the same rank of as many."""
        if self._serves:
            if "stream" not in state:
                raise StateError("This is no state of a StreamDataset.")
            self._loader.restore(state["stream"])


def stream_state_from_snapshot(snapshot: Mapping[str, Any]) -> dict[str, object]:
    """The state of this rank at the place where a StatefulDataLoader took `snapshot`, for any number of workers.

    It was a loader over a StreamDataset or over a data set of `fast_load_iterable_dataset`; with several ranks,
    `gm.merge_states` makes one state of those of all.
    """
    if since := steps_since(snapshot):
        raise StateError(
            f"The places in this snapshot are those of {counted(since, 'step')} before it: take it at a multiple of "
            "snapshot_every_n_steps, or leave that at 1."
        )
    holders = holders_of(snapshot)
    rows = [state for holder in holders if (state := inside(holder, "dataset_state"))]
    if rows and len(rows) == len(holders):
        return dict(join_states(rows))
    states = [inside(holder, "fetcher_state", "dataset_iter_state", "stream") for holder in holders]
    whole = [state for state in states if state is not None]
    if len(whole) != 1 or not isinstance(whole[0], Mapping) or since is None:
        raise StateError("This is no snapshot of a StatefulDataLoader over a StreamDataset or a data set of rows.")
    return dict(whole[0])
