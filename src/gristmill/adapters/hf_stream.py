"""A stream as Transformers' Trainer takes it: the rows of an update in parts, and the place in trainer_state.json.

trainer = GristmillTrainer(model=model, args=args, train_dataset=CausalLMStream(stream))
trainer = GristmillTrainer(..., eval_dataset=CausalLMStream(held_out.batch(8, epochs=1)))

A step of the stream is an update of the weights, as with a plan; the run's length is args.max_steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, cast

from gristmill.core.extras import extra

with extra("hf", __name__):
    from torch.utils.data import DataLoader, IterableDataset
    from transformers import TrainerCallback, TrainerState, TrainingArguments
    from transformers.trainer_callback import ExportableState

from gristmill.adapters.parcel import Tensors
from gristmill.adapters.streams import State, Streamed, TorchStreamLoader, as_streamed
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.values import shown
from gristmill.loader.fill import IGNORED, as_keys
from gristmill.loader.loader import StreamOptions
from gristmill.order.augment import asks_in_place


def model_inputs(row: Tensors, keys: Sequence[str], in_place: bool = False) -> Tensors:
    """What a model of Transformers takes of a row, or of rows; labels `in_place` are for tokens where they stand."""
    ids = row["input_ids"]
    if in_place:
        labels = row["labels"]
    elif "labels" in row:  # of an augmentation: other tokens than the inputs have
        labels = row["labels"].roll(1, -1)
    else:
        labels = ids.masked_fill(~row["loss_mask"], IGNORED) if "loss_mask" in row else ids.clone()
    if not in_place:
        # Nothing comes before it; and the Trainer (5.22) counts it where it does not know the loss, as with GPT-2.
        labels[..., 0] = IGNORED
    return {"input_ids": ids, "labels": labels, **{key: row[key] for key in keys}}


class CausalLMStream(IterableDataset[Tensors]):
    """The rows of a stream as the causal language models of Transformers take them; options are its loader's.

    `labels` are the row itself, -100 where a token is no target: these models shift them by themselves. It is served
    by GristmillTrainer, which says what ranks there are: to train on a stream without end, to evaluate on one with
    epochs=1.
    """

    def __init__(
        self,
        stream: Streamed,
        *,
        keys: str | Sequence[str] = (),
        threads: int = 2,
        workers: int = 0,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        self.stream = as_streamed(stream)
        self._in_place = asks_in_place(stream.first.augmentations)
        self.keys = tuple(key for key in as_keys(keys) if key != "labels")
        self._options: StreamOptions = {
            "keys": self.keys, "threads": threads, "workers": workers, "pad_to_multiple_of": pad_to_multiple_of
        }  # fmt: skip
        self.split(0, 1, 1)
        self._parts = 0

    def split(self, rank: int, world_size: int, parts: int) -> None:
        """Be the rows of one rank, from the stream's start on, those of a batch in `parts` equal ones."""
        self._parts, self._passed = parts, 0
        self.loader = TorchStreamLoader(self.stream, rank, world_size, **self._options)

    def resume(self, state: State, passed: int) -> None:
        """Go on where `state` was taken; what the Trainer passes over until it is there is nothing, `passed` times."""
        self.loader.load_state_dict(state)
        self._passed = passed

    def __iter__(self) -> Iterator[Tensors]:
        if not self._parts:  # another Trainer would make batches of whole batches
            raise ConfigError(
                "CausalLMStream is served by GristmillTrainer: take that in place of Trainer, or TorchStreamLoader("
                "stream) in a loop of your own."
            )
        return self._microbatches()

    def _microbatches(self) -> Iterator[Tensors]:
        passed, self._passed = self._passed, 0
        yield from itertools.repeat({}, passed)
        for batch in self.loader:
            rows = len(batch["input_ids"]) // self._parts
            for first in range(0, rows * self._parts, rows):
                some = {key: tensor[first : first + rows] for key, tensor in batch.items()}
                yield model_inputs(some, self.keys, self._in_place)


def stream_batches(data: CausalLMStream, args: TrainingArguments, rank: int, world_size: int) -> DataLoader[Tensors]:
    """This rank's microbatches, in the stream's order."""
    parts = args.gradient_accumulation_steps
    made = args.train_batch_size * parts * world_size
    if data.stream.epochs is not None:
        raise ConfigError("The Trainer trains on whole batches only: leave epochs= out of the stream.")
    if made != data.stream.batch_size:
        raise ConfigError(
            f"The stream has batches of {data.stream.batch_size} sequences, the Trainer makes {made} of "
            f"per_device_train_batch_size, gradient_accumulation_steps ({parts}) and the world size ({world_size}): "
            "change one of these, or the stream."
        )
    if args.dataloader_num_workers:
        raise ConfigError("A stream has threads and workers of its own: leave out dataloader_num_workers.")
    if args.ignore_data_skip:
        raise ConfigError("Leave out ignore_data_skip: a stream goes on where it was, and skipping costs nothing.")
    if args.auto_find_batch_size:
        raise ConfigError("The stream sets the batch size: leave out auto_find_batch_size.")
    if args.max_steps <= 0:
        raise ConfigError("A stream has no end: say how long to train by max_steps.")
    data.split(rank, world_size, parts)
    return DataLoader(data, batch_size=None, pin_memory=args.dataloader_pin_memory)


class StreamBatches(Protocol):
    """The Trainer's loader."""

    dataset: CausalLMStream


class StreamPosition(TrainerCallback, ExportableState):
    """Keeps the state of all ranks' rows in the Trainer's own, and goes on from it where a run is resumed."""

    def __init__(self) -> None:
        self._data: CausalLMStream | None = None
        self._state: State = {}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **objects: object) -> None:
        """Go on at the place of a checkpoint."""
        self._data = cast(StreamBatches, objects["train_dataloader"]).dataset
        if state.global_step:
            kept = self._kept(state)
            self._data.resume(kept, state.global_step % args.max_steps * args.gradient_accumulation_steps)

    def _kept(self, state: TrainerState) -> State:
        """The place that a checkpoint holds, which must be that of its step."""
        # A dict once it comes from a checkpoint.
        states = cast(Mapping[str, Mapping[str, Mapping[str, State]]], state.stateful_callbacks)
        kept = states.get(type(self).__name__, {}).get("attributes", {}).get("stream")
        if not isinstance(kept, Mapping) or not kept:
            raise StateError(
                f"The checkpoint of step {state.global_step:,} holds no place in a stream, it was made without one: "
                "start from its weights alone, by from_pretrained."
            )
        if kept.get("step") != state.global_step:
            raise StateError(
                f"The checkpoint is of step {state.global_step:,}, and its place in the stream of step "
                f"{shown(kept.get('step'))}: go on from another checkpoint, this one would serve other batches."
            )
        return kept

    def gather(self) -> None:
        """All ranks give their rows' places, before one of them alone is asked for the state."""
        if self._data is not None:
            self._state = self._data.loader.state_dict()

    def state(self) -> dict[str, object]:
        """What goes into trainer_state.json: 15 bytes a row of the batch."""
        return {"args": {}, "attributes": {"stream": self._state}}
