"""Hugging Face's Trainer over a plan or a stream: it resumes exactly and at once, on any number of ranks.

trainer = GristmillTrainer(model=model, args=args, train_dataset=CausalLMDataset(plan))
trainer.train(resume_from_checkpoint=True)

A step of the plan is an update of the weights: per_device_train_batch_size * gradient_accumulation_steps * ranks is the
plan's batch_size, however it is split. The Trainer's global_step is therefore the place in the plan, and resuming skips
row numbers, 0.3 s a million batches, where the Trainer would otherwise read every batch again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from gristmill.core.extras import extra

with extra("hf", __name__):
    import torch
    from torch.utils.data import DataLoader, Sampler
    from transformers import (
        DataCollator,
        PreTrainedModel,
        TrainerCallback,
        TrainerState,
        TrainingArguments,
    )
    from transformers import default_data_collator as stack_rows
    from transformers.trainer_callback import ExportableState

from gristmill.adapters.hf_evaluation import EvaluatedTrainer
from gristmill.adapters.hf_record import RecordedTrainer
from gristmill.adapters.hf_stream import CausalLMStream, StreamPosition, model_inputs, stream_batches
from gristmill.adapters.parcel import Tensors
from gristmill.adapters.passes import extended
from gristmill.adapters.streams import is_streamed
from gristmill.adapters.torch import SampleDataset
from gristmill.core.errors import ConfigError, StateError
from gristmill.loader.fill import as_keys
from gristmill.loader.groups import step_after
from gristmill.loader.state import check_state, make_state
from gristmill.order.augment import asks_in_place
from gristmill.order.plan import Plan


class CausalLMDataset(SampleDataset):
    """The rows of a plan as the causal language models of Transformers take them, to train and to evaluate on.

    `labels` are the row itself, -100 where a token is no target: these models shift them by themselves. keys: more that
    the model's forward takes, such as position_ids or attention_mask. pad_to_multiple_of is that of `Loader`.
    """

    def __init__(self, plan: Plan, *, keys: str | Sequence[str] = (), pad_to_multiple_of: int | None = None) -> None:
        if is_streamed(plan):
            raise ConfigError("CausalLMDataset is for a plan: a stream goes into CausalLMStream(stream).")
        others = [key for key in as_keys(keys) if key != "labels"]
        super().__init__(plan, keys=others, pad_to_multiple_of=pad_to_multiple_of)
        self._in_place = asks_in_place(plan.augmentations)

    def __getitems__(self, indices: Sequence[int]) -> list[Tensors]:
        """Many rows in one go."""
        return [model_inputs(row, self.keys, self._in_place) for row in super().__getitems__(indices)]


class GristmillTrainer(RecordedTrainer, EvaluatedTrainer):
    """The Trainer with `train_dataset=CausalLMDataset(plan)`, or `CausalLMStream(stream)`; all else is as it is there.

    An epoch is a pass over the plan (`gristmill.adapters.passes`). The place is kept in trainer_state.json, one for all
    ranks; a checkpoint of another plan is refused.
    """

    def __init__(
        self,
        model: PreTrainedModel | torch.nn.Module | None = None,
        args: TrainingArguments | None = None,
        data_collator: DataCollator | None = stack_rows,
        **options: object,
    ) -> None:
        super().__init__(model, args, data_collator, **options)
        self.add_callback(StreamPosition() if isinstance(self.train_dataset, CausalLMStream) else PlanPosition())

    def _save_checkpoint(self, *args: Any, **options: Any) -> None:
        """A checkpoint, whoever asked for it: all ranks come here, and one of them writes the place of all."""
        for each in self.callback_handler.callbacks:
            if isinstance(each, StreamPosition):
                each.gather()
        super()._save_checkpoint(*args, **options)

    def get_train_dataloader(self) -> DataLoader[Tensors]:
        """This rank's microbatches of one pass, in the order of the plan or the stream."""
        rank, world_size = self._ranks()
        if isinstance(self.train_dataset, CausalLMStream):
            return stream_batches(self.train_dataset, self.args, rank, world_size)
        args, data = self.args, self._checked_data()
        microbatches = Microbatches(data.plan, args.gradient_accumulation_steps, rank, world_size)
        self._check_batches(data.plan, args.train_batch_size * args.gradient_accumulation_steps * world_size)
        updates = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * len(data.plan))
        passes = -(-updates // len(data.plan))
        return DataLoader(
            CausalLMDataset(
                extended(data.plan, passes * len(data.plan)),
                keys=data.keys,
                pad_to_multiple_of=data.pad_to_multiple_of,
            ),
            batch_sampler=microbatches,  # type: ignore[arg-type]  # a range of row numbers is as good as a list
            collate_fn=self.data_collator,
            num_workers=args.dataloader_num_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
            persistent_workers=args.dataloader_persistent_workers,
            pin_memory=args.dataloader_pin_memory,
        )

    def _checked_data(self) -> CausalLMDataset:
        if not isinstance(self.train_dataset, CausalLMDataset):
            raise ConfigError(
                "GristmillTrainer trains on a plan or a stream: give it train_dataset=CausalLMDataset(plan) or "
                "train_dataset=CausalLMStream(stream)."
            )
        if not self.train_dataset.plan.options.drop_last:
            raise ConfigError("The Trainer trains on whole batches only: leave drop_last=False out of the plan.")
        if self.args.ignore_data_skip:
            raise ConfigError("ignore_data_skip would begin the pass anew: leave it out, skipping costs nothing here.")
        if self.args.auto_find_batch_size:
            raise ConfigError("The plan sets the batch size: leave out auto_find_batch_size.")
        return self.train_dataset

    def _check_batches(self, plan: Plan, made: int) -> None:
        for segment in plan.segments:
            if segment.batch_size != made:
                raise ConfigError(
                    f"The plan has batches of {segment.batch_size} sequences from step {segment.from_step} on, the "
                    f"Trainer makes {made} of per_device_train_batch_size, gradient_accumulation_steps "
                    f"({self.args.gradient_accumulation_steps}) and the world size ({self.args.world_size}): "
                    "change one of these, or the plan."
                )

    def num_examples(self, dataloader: DataLoader[Tensors]) -> int:
        """Sequences of one pass."""
        if isinstance(dataloader.batch_sampler, Microbatches):
            return len(self._checked_data())
        return super().num_examples(dataloader)


class Microbatches(Sampler[range]):
    """The row numbers of pass number `epoch` on one rank, those of a forward and backward at a time.

    `parts` of them are an update. Where a run is resumed, the Trainer wraps this in a sampler that skips what was done.
    """

    def __init__(self, plan: Plan, parts: int, rank: int, world_size: int) -> None:
        self.updates, self.epoch = len(plan), 0
        self._parts, self._rows = parts, plan.batch_size // parts
        self._rank, self._world_size = rank, world_size

    def __len__(self) -> int:
        return self.updates * self._parts

    def __iter__(self) -> Iterator[range]:
        first = self.epoch * len(self)
        for i in range(first, first + len(self)):
            yield range(i * self._rows + self._rank, (i + 1) * self._rows, self._world_size)


class TrainBatches(Protocol):
    """The Trainer's loader, however it is wrapped."""

    dataset: CausalLMDataset
    batch_sampler: Microbatches


class PlanPosition(TrainerCallback, ExportableState):
    """Keeps the loader's state in the Trainer's own, checks it where a run is resumed, and counts the passes."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._updates = self._epoch = 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """Refuse a checkpoint that is not of this plan."""
        batches = cast(TrainBatches, objects["train_dataloader"])
        self._plan, self._updates = batches.dataset.plan, state.global_step
        self._epoch = state.global_step // batches.batch_sampler.updates
        if state.global_step:
            check_state(self._plan, self._kept(state))

    def _kept(self, state: TrainerState) -> object:
        """The loader's state in a checkpoint's."""
        # A dict once it comes from a checkpoint.
        states = cast(Mapping[str, Mapping[str, Mapping[str, object]]], state.stateful_callbacks)
        if type(self).__name__ not in states:
            raise StateError(
                f"The checkpoint of step {state.global_step:,} was not made by GristmillTrainer: start from its "
                "weights alone, by from_pretrained."
            )
        return states[type(self).__name__]["attributes"]["loader"]

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """Choose the pass, by a count of its own: how the Trainer tells a sampler of its epoch differs by version."""
        cast(TrainBatches, objects["train_dataloader"]).batch_sampler.epoch = self._epoch
        self._epoch += 1

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """Follow the Trainer."""
        self._updates = state.global_step

    def state(self) -> dict[str, object]:
        """What goes into trainer_state.json: under 1 KB."""
        if self._plan is None:
            return {"args": {}, "attributes": {}}
        loader = make_state(self._plan, step_after(self._plan, 0, self._updates))
        return {"args": {}, "attributes": {"loader": loader}}
