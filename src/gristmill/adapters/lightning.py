"""Lightning over a plan or a stream: its Trainer keeps the place in the data and resumes exactly, on any ranks.

trainer.fit(model, GristmillDataModule(plan, val_plan, keys=("labels",)))
trainer.fit(model, GristmillDataModule(plan, val_plan, keys=("labels",)), ckpt_path="last.ckpt")

The trainer's epoch is a pass over the plan (`gristmill.adapters.passes`); a stream is one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gristmill.core.extras import extra

with extra("lightning", __name__):
    from lightning import Callback, LightningDataModule, LightningModule, Trainer

from gristmill.adapters.local_files import ENDLESS
from gristmill.adapters.parcel import Tensors
from gristmill.adapters.passes import PassLoader
from gristmill.adapters.streams import Streamed, TorchStreamLoader, as_plan_or_stream, is_streamed
from gristmill.adapters.torch import TorchLoader, data_parallel_rank
from gristmill.core.arguments import PathLike, as_whole
from gristmill.core.errors import ConfigError, StateError
from gristmill.loader.fill import as_keys
from gristmill.loader.loader import RankOptions
from gristmill.order.plan import Plan, as_plan

Batches = TypeVar("Batches", bound=TorchLoader)


class GristmillDataModule(LightningDataModule):
    """The batches of `plan` to train on, and those of `val_plan`, all of them, at each validation.

    Both may be streams, `gm.stream(...).tokenize(...).pack(...).batch(...)`, to validate on with epochs=1. keys,
    threads, max_docs and pad_to_multiple_of are those of `Loader`, workers a stream's. The batch_size is that of all
    ranks together. Which ranks split a batch is asked of the Trainer's strategy: under tensor parallelism those of its
    data-parallel mesh.
    """

    def __init__(
        self,
        plan: Plan | Streamed,
        val_plan: Plan | Streamed | None = None,
        *,
        keys: str | Sequence[str] = (),
        threads: int = 2,
        workers: int = 0,
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        super().__init__()
        self.plan: Plan | Streamed = as_plan_or_stream("plan", plan)
        self.val_plan = None if val_plan is None else as_plan_or_stream("val_plan", val_plan)
        if is_streamed(val_plan) and val_plan.epochs is None:
            raise ConfigError("A stream to validate on has an end: say batch(..., epochs=1).", arguments="val_plan")
        keys, threads, self._workers = as_keys(keys), as_whole("threads", threads, 0), as_whole("workers", workers, 0)
        if self._workers and not (is_streamed(plan) or is_streamed(val_plan)):
            raise ConfigError("A plan is read by threads: workers are for streams.", arguments="workers")
        max_docs = None if max_docs is None else as_whole("max_docs", max_docs)
        self._options: RankOptions = {
            "keys": keys, "threads": threads, "max_docs": max_docs, "pad_to_multiple_of": pad_to_multiple_of
        }  # fmt: skip
        self._train: TrainLoader | None = None
        self._val: ValLoader | None = None

    def __repr__(self) -> str:
        val = "" if self.val_plan is None else f", val_plan={self.val_plan!r}"
        return f"GristmillDataModule({self.plan!r}{val})"

    def setup(self, stage: str) -> None:
        """Open the loaders, once the process group exists from which ranks are taken."""
        split = getattr(getattr(self.trainer, "strategy", None), "distributed_sampler_kwargs", None)
        ranks = (split["rank"], split["num_replicas"]) if split else data_parallel_rank()
        if stage == "fit":
            place = self.state_dict() if self.trainer and self.trainer.global_step else {}
            self._train = TrainLoader(self._opened(self.plan, ranks, PassLoader), self.trainer)
            if place:  # of an earlier fit of the same Trainer, which goes on
                self._train.load_state_dict(place)
        if self.val_plan is not None:
            self._val = ValLoader(self._opened(self.val_plan, ranks, TorchLoader))

    def _opened(
        self, source: Plan | Streamed, ranks: tuple[int, int], kind: type[Batches]
    ) -> Batches | TorchStreamLoader:
        if is_streamed(source):
            return TorchStreamLoader(source, *ranks, **self._options, workers=self._workers)
        return kind(as_plan("plan", source), *ranks, **self._options)

    def train_dataloader(self) -> TrainLoader:
        """The loader of this rank; its `stats` tell how long the Trainer waited for data."""
        if self._train is None:
            raise ConfigError('There is no loader yet: call setup("fit") first, as the Trainer does.')
        return self._train

    def val_dataloader(self) -> ValLoader | list[ValLoader]:
        """The loader of this rank; an empty list, which is no validation, without a val_plan."""
        return [] if self._val is None else self._val

    # Lightning keeps the state of a train loader by itself, but does not load it where a schedule has asked for
    # trainer.estimated_stepping_batches (as of 2.6.6); that of a data module it always loads.
    def state_dict(self) -> dict[str, object]:
        """The train loader's state, the same on every rank: under 1 KB of a plan, 15 bytes a row of a stream."""
        return {} if self._train is None else dict(self._train.state_dict())

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Go on where the state was taken; validation alone has no place to go on from."""
        if self._train is not None:
            self._train.load_state_dict(state_dict)

    def teardown(self, stage: str) -> None:
        """Stop the reading threads; the state stays for a save_checkpoint after the fit."""
        for loader in (self._train, self._val):
            if loader is not None:
                loader.close()


class RecordServed(Callback):
    """Keeps a row a step at `path`, such as run/served.parquet, with the losses of `training_step`.

    Trainer(callbacks=[RecordServed("run/served.parquet")]).fit(model, GristmillDataModule(plan))
    """

    def __init__(self, path: PathLike) -> None:
        self._path = path
        self._loader: TrainLoader | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with the first batch of this fit."""
        module = getattr(trainer, "datamodule", None)
        if not isinstance(module, GristmillDataModule):
            raise ConfigError("RecordServed records what a GristmillDataModule serves: give that to fit().")
        loader = module.train_dataloader()
        if loader is not self._loader:
            loader.record(self._path)
            self._loader = loader

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: object, batch_idx: int
    ) -> None:
        """The loss of the batch, which Lightning has divided by the batches of an update."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if self._loader is not None and loss is not None:
            self._loader.record_loss(loss * trainer.accumulate_grad_batches)


class TrainLoader:
    """The passes of a plan, or a stream, always with a length: Lightning takes a batch ahead of what has none."""

    def __init__(self, passes: PassLoader | TorchStreamLoader, trainer: Trainer | None) -> None:
        self._passes, self._trainer = passes, trainer
        self.state_dict, self.load_state_dict = passes.state_dict, passes.load_state_dict
        self.stats, self.close = passes.stats, passes.close
        self.observe, self.record, self.record_loss = passes.observe, passes.record, passes.record_loss

    @property
    def step(self) -> int:
        """The next step that is served."""
        return self._passes.step

    def __len__(self) -> int:
        """Batches of a pass; 2**40 if the plan is endless, or if this is a stream."""
        if isinstance(self._passes, TorchStreamLoader) or self._passes.plan.total_steps is None:
            return ENDLESS
        return len(self._passes)

    def __iter__(self) -> Iterator[Tensors]:
        if self._passes.step == 0 and self._trainer and self._trainer.ckpt_path and self._trainer.global_step:
            raise StateError(
                f"{self._trainer.ckpt_path} holds no place in the data, it was trained without GristmillDataModule: "
                "start from its weights alone, by load_from_checkpoint."
            )
        yield from self._passes


class ValLoader:
    """Every iteration the whole plan, or stream."""

    def __init__(self, batches: TorchLoader | TorchStreamLoader) -> None:
        self._batches, self.stats, self.close = batches, batches.stats, batches.close

    def __len__(self) -> int:
        if isinstance(self._batches, TorchStreamLoader):
            raise TypeError("How many batches a stream has is known at its end.")
        return len(self._batches)

    def __iter__(self) -> Iterator[Tensors]:
        if isinstance(self._batches, TorchStreamLoader):
            self._batches.rewind()
        else:
            self._batches.seek(0)
        return iter(self._batches)
