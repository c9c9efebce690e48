"""OLMo-core's Trainer over a plan: this loader stands where its NumpyFSLDataLoader would.

data_loader = GristmillDataLoader(plan)
trainer_config.build(train_module, data_loader).fit()

The trainer's epoch e is the steps from (e - 1) * plan.total_steps on: the first is the plan, and each later one goes on
where the one before ended, with a new order of every source that begins again. An endless plan is one epoch, and so is
a stream, by `GristmillStreamLoader`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import TypedDict, cast

import numpy as np

from gristmill.core.extras import extra

with extra("olmo", __name__):
    import torch
    from olmo_core.data import DataCollator
    from olmo_core.data.data_loader import TextDataLoaderBase
    from olmo_core.distributed.utils import get_rank, get_world_size

from gristmill.adapters.streams import Streamed, TorchStreamLoader, as_streamed
from gristmill.core.arguments import PathLike, as_flag, as_whole
from gristmill.core.errors import ConfigError, StateError
from gristmill.loader.fill import Batch
from gristmill.loader.groups import step_after
from gristmill.loader.loader import Loader
from gristmill.loader.state import State
from gristmill.order.plan import Plan, as_plan

# Tensors, and lists of lengths.
Translated = dict[str, object]


class TrainerPlace(TypedDict):
    """The loader's own state, the trainer's epoch and its count of tokens: under 1.2 KB, equal on every rank."""

    epoch: int
    epoch_steps: int | None
    tokens_processed: int
    loader: State


class GristmillDataLoader(TextDataLoaderBase):
    """A plan's batches as OLMo-core's Trainer takes them; its state is the same on every rank.

    doc_lens: also hand out the lengths of the documents in each row, for attention inside documents only. threads:
    readers ahead of the trainer. dp_world_size and dp_rank: all ranks of torch.distributed unless given; ranks that
    share their data (tensor, context or pipeline parallel) share a dp_rank.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        doc_lens: bool = False,
        threads: int = 2,
        dp_world_size: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        doc_lens, threads = as_flag("doc_lens", doc_lens), as_whole("threads", threads, 0)
        dp_world_size = get_world_size() if dp_world_size is None else as_whole("dp_world_size", dp_world_size)
        dp_rank = get_rank() if dp_rank is None else as_whole("dp_rank", dp_rank, 0)
        if not as_plan("plan", plan).options.drop_last:
            raise ConfigError("OLMo-core trains on whole batches only: leave drop_last=False out of the plan.")
        super().__init__(
            collator=DataCollator(pad_token_id=plan.sources[0].store.eos or 0),
            work_dir=os.curdir,  # asked for by the base class; an order that is computed has nothing to keep there
            global_batch_size=plan.batch_size * plan.seq_len,
            dp_world_size=dp_world_size,
            dp_rank=dp_rank,
        )
        self.plan = plan
        self._keys, self._threads = ("cu_seqlens",) if doc_lens else (), threads
        self._plan_through = functools.cache(functools.partial(_plan_through, plan))
        self._loader = self._open(plan)
        self._recorded_at: PathLike | None = None
        self._announce(0)

    def __repr__(self) -> str:
        return f"GristmillDataLoader({self._loader!r})"

    def _open(self, plan: Plan) -> Loader:
        # As many documents as tokens fit into a row, so that none are merged.
        most = max(segment.seq_len for segment in plan.segments)
        return Loader(plan, self.dp_rank, self.dp_world_size, keys=self._keys, threads=self._threads, max_docs=most)

    @property
    def global_batch_size(self) -> int:
        """Tokens of the batch that was served last, or before the first one those of the next."""
        return self._global_batch_size

    @global_batch_size.setter
    def global_batch_size(self, tokens: int) -> None:
        if tokens != self._global_batch_size:
            raise ConfigError(
                f"The plan sets the batch size ({self._global_batch_size:,} tokens): instead of OLMo-core's scheduler "
                "give it a Phase(from_step=..., batch_size=...)."
            )

    def _announce(self, step: int) -> None:
        """Let `global_batch_size` be that of `step`, or of the plan's last step where it has ended."""
        last = self._loader.plan.total_steps
        segment = self._loader.plan.segment(step if last is None else min(step, last - 1))
        self._global_batch_size = segment.batch_size * segment.seq_len

    @property
    def total_batches(self) -> int | None:
        """Batches of the current epoch; None if the plan is endless, which needs a duration in steps or tokens."""
        return self.batches_in_epoch(self._epoch or 1)

    def batches_in_epoch(self, epoch: int) -> int | None:
        """Batches of any epoch; an error if the plan's max_epochs does not reach that far."""
        if self.plan.total_steps is None:
            return None
        served = self._plan_through(epoch).skips.served
        return served(self._first_step(epoch + 1)) - served(self._first_step(epoch))

    def _first_step(self, epoch: int) -> int:
        return (epoch - 1) * (self.plan.total_steps or 0)

    def _step_of(self, batches: int) -> int:
        """The plan's step after `batches` batches of the current epoch."""
        return step_after(self.plan, self._first_step(self.epoch), batches)

    def reshuffle(self, epoch: int | None = None, **kwargs: object) -> None:
        """Begin `epoch` (default: the one after the last `reset`), or go on in it after `load_state_dict`."""
        self._enter(epoch if epoch is not None else self._epoch or 1)
        self._place()

    def _enter(self, epoch: int) -> None:
        if epoch < 1:
            raise ConfigError(f"OLMo-core counts epochs from 1: there is no epoch {epoch}.")
        plan = self._plan_through(epoch)
        if plan is not self._loader.plan:
            self._loader.close()
            self._loader = self._open(plan)
            if self._recorded_at is not None:
                self._loader.record(self._recorded_at)
        self._epoch = epoch

    def _place(self) -> None:
        """Put the loader where `epoch` and `batches_processed` are."""
        self._loader.seek(self._step_of(self.batches_processed))
        self._announce(self._loader.step)

    def reset(self) -> None:
        """End the epoch: the position is the first step of the next one."""
        super().reset()  # type: ignore[no-untyped-call]
        if self.plan.total_steps is not None:
            self._epoch = self.epoch + 1
        self._place()

    def state_dict(self) -> dict[str, object]:
        """What `TrainerPlace` has."""
        place = TrainerPlace(
            epoch=self._epoch or 1,
            epoch_steps=self.plan.total_steps,
            tokens_processed=self.tokens_processed,
            loader=self._loader.state_dict(),
        )
        return dict(place)

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Go on where the state was taken, on any world size that divides the batch."""
        if not isinstance(state_dict, dict) or not state_dict.keys() >= TrainerPlace.__required_keys__:
            raise StateError(
                "The checkpoint was not made with GristmillDataLoader: start from it with load_trainer_state=False."
            )
        place = cast(TrainerPlace, state_dict)
        epoch, steps = place["epoch"], place["epoch_steps"]
        if epoch > 1 and steps != self.plan.total_steps:
            raise StateError(
                f"The checkpoint is in epoch {epoch} of a plan of {steps:,} steps; this plan has "
                f"{self.plan.total_steps}: keep its steps=, and set the length of the run by max_duration."
            )
        self._enter(epoch)
        self._loader.load_state_dict(place["loader"])
        self._announce(self._loader.step)
        served = self.plan.skips.served
        self.batches_processed = served(self._loader.step) - served(self._first_step(epoch))
        self.tokens_processed = place["tokens_processed"]

    def _iter_batches(self) -> Iterator[Translated]:
        self._place()
        for batch in self._loader:
            self._announce(self._loader.step - 1)
            yield _translated(batch)

    def __getitem__(self, index: int) -> Translated:
        """Batch `index` of the current epoch, without touching the iteration."""
        step = self.plan.skips.next_served(self._step_of(index))
        return _translated(self._loader.batch(step))

    def get_mock_batch(self) -> Translated:
        """The plan's first batch: what it holds does not matter, its keys and shapes do."""
        return _translated(self._loader.batch(self.plan.skips.next_served(0)))

    def stats(self) -> dict[str, float]:
        """Of this rank since the epoch began or was resumed: tokens/s, time waited for data, and what was cut."""
        return self._loader.stats()

    def record(self, path: PathLike) -> None:
        """Keep a row a step at `path` from now on, as `Loader.record` does."""
        self._loader.record(path)
        self._recorded_at = path

    def record_loss(self, loss: object, step: int | None = None) -> None:
        """The loss of a step, by default of the last one served, as `Loader.record_loss` takes it."""
        self._loader.record_loss(loss, step)


class GristmillStreamLoader(TextDataLoaderBase):
    """A stream's batches as OLMo-core's Trainer takes them, in one epoch: count its length in steps or tokens.

    The stream is `gm.stream(...).tokenize(...).pack(...).batch(...)`; options are those of `GristmillDataLoader`, and
    workers those of the stream's loader. All ranks ask for the state together, and each gets that of the whole.
    """

    def __init__(
        self,
        stream: Streamed,
        *,
        doc_lens: bool = False,
        threads: int = 2,
        workers: int = 0,
        dp_world_size: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        first = as_streamed(stream).first
        dp_world_size = get_world_size() if dp_world_size is None else as_whole("dp_world_size", dp_world_size)
        dp_rank = get_rank() if dp_rank is None else as_whole("dp_rank", dp_rank, 0)
        if stream.epochs is not None:
            raise ConfigError("OLMo-core trains on whole batches only: leave epochs= out of the stream.")
        super().__init__(
            collator=DataCollator(pad_token_id=first.encoder.eos),
            work_dir=os.curdir,  # asked for by the base class
            global_batch_size=stream.batch_size * first.seq_len,
            dp_world_size=dp_world_size,
            dp_rank=dp_rank,
        )
        keys = ("cu_seqlens",) if as_flag("doc_lens", doc_lens) else ()
        self._loader = TorchStreamLoader(stream, dp_rank, dp_world_size, keys=keys, threads=threads, workers=workers,
                                         max_docs=first.seq_len)  # fmt: skip

    total_batches = None

    def reshuffle(self, epoch: int | None = None, **kwargs: object) -> None:
        """Begin the only epoch, or go on in it."""
        if epoch not in (None, 1):
            raise ConfigError(f"A stream is one epoch, there is no epoch {epoch}: count its length in steps.")
        self._epoch = 1

    def state_dict(self) -> dict[str, object]:
        """The stream's state and the trainer's count of tokens, the same on every rank."""
        return {"tokens_processed": self.tokens_processed, "stream": self._loader.state_dict()}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Go on where the state was taken, on any world size that divides the batch."""
        if not isinstance(state_dict, dict) or not state_dict.keys() >= {"tokens_processed", "stream"}:
            raise StateError(
                "The checkpoint was not made with GristmillStreamLoader: start from it with load_trainer_state=False."
            )
        self._loader.load_state_dict(cast(Mapping[str, object], state_dict["stream"]))
        self.batches_processed, self.tokens_processed = self._loader.step, cast(int, state_dict["tokens_processed"])

    def _iter_batches(self) -> Iterator[Translated]:
        return (_translated({key: tensor.numpy() for key, tensor in batch.items()}) for batch in self._loader)

    def get_mock_batch(self) -> Translated:
        """A batch of padding: what it holds does not matter, its keys and shapes do."""
        return _translated({key: tensor.numpy() for key, tensor in self._loader.padding().items()})

    def stats(self) -> dict[str, object]:
        """What the stream's loader counts: batches, tokens, time waited, what was dropped and why."""
        return self._loader.stats()

    def record(self, path: PathLike) -> None:
        """Keep a row a step at `path` from now on, as `Loader.record` does."""
        self._loader.record(path)

    def record_loss(self, loss: object, step: int | None = None) -> None:
        """The loss of a step, by default of the last one served, as `Loader.record_loss` takes it."""
        self._loader.record_loss(loss, step)


def _plan_through(plan: Plan, epoch: int) -> Plan:
    """The plan, gone on to the end of the trainer's `epoch`."""
    if epoch == 1:
        return plan
    if plan.total_steps is None:
        raise ConfigError(f"An endless plan is one epoch, there is no epoch {epoch}: count its length in steps.")
    return plan.with_steps(epoch * plan.total_steps)


def _translated(batch: Batch) -> Translated:
    """Arrays to tensors under OLMo-core's names: its label_mask is our loss_mask, a token as a target.

    It makes labels of the inputs by itself, unless an augmentation has brought some that differ.
    """
    out: Translated = {
        key: torch.from_numpy(batch[key]) for key in ("input_ids", "sample_ids", "labels") if key in batch
    }
    if "loss_mask" in batch:
        out["label_mask"] = torch.from_numpy(batch["loss_mask"])
    if "cu_seqlens" in batch:
        lengths = np.diff(batch["cu_seqlens"], axis=1)
        most = np.count_nonzero(lengths, axis=1).max()
        out["doc_lens"] = torch.from_numpy(np.ascontiguousarray(lengths[:, :most]))
        out["max_doc_lens"] = lengths.max(axis=1).tolist()
    return out
