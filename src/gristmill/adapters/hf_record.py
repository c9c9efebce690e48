"""What Transformers' Trainer has been served, and its losses: a row an update, see `gristmill.loader.record`."""

from __future__ import annotations

import time
from typing import Any

from gristmill.core.extras import extra

with extra("hf", __name__):
    import torch
    from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

from gristmill.core.arguments import PathLike
from gristmill.loader.groups import step_after
from gristmill.loader.record import Record
from gristmill.order.plan import Plan


class RecordedTrainer(Trainer):
    """A Trainer whose updates can be recorded: `record` before `train`."""

    _updates: Updates | None = None

    def record(self, path: PathLike) -> None:
        """Keep a row a step at `path`, such as run/served.parquet, with its loss and the seconds waited for it."""
        self._updates = Updates(path)
        self.add_callback(self._updates)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The batches of an update, and how long they took to come."""
        began = time.perf_counter()
        found = super().get_batch_samples(*args, **kwargs)
        if self._updates is not None:
            self._updates.waited += time.perf_counter() - began
            self._updates.tokens += sum(batch["input_ids"].numel() for batch in found[0] if "input_ids" in batch)
        return found

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A microbatch, whose loss is its part of the update's."""
        loss = super().training_step(*args, **kwargs)
        if self._updates is not None:
            self._updates.losses.append(loss.detach())
        return loss


class Updates(TrainerCallback):
    """The record of a Trainer's updates."""

    def __init__(self, path: PathLike) -> None:
        self._path = path
        self._record: Record | None = None
        self._plan: Plan | None = None
        self.waited, self.tokens, self.losses = 0.0, 0, list[torch.Tensor]()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: Any) -> None:
        """Begin, or go on with the record that is there."""
        self._plan = getattr(objects["train_dataloader"].dataset, "plan", None)
        self._record = Record(self._path, self._plan, args.process_index, args.world_size)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """An update is done: global_step counts it already."""
        if self._record is not None and self.losses:
            done = state.global_step - 1
            step = done if self._plan is None else self._plan.skips.next_served(step_after(self._plan, 0, done))
            self._record.served(step, self.tokens, self.waited)
            self._record.loss(torch.stack(self.losses).sum(), step)
        self.waited, self.tokens, self.losses = 0.0, 0, []

    def on_train_end(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """Write the last of it."""
        if self._record is not None:
            self._record.close()
