"""Transformers' Trainer evaluating and predicting on a stream that ends.

trainer = GristmillTrainer(..., eval_dataset=CausalLMStream(stream))    # of .batch(8, epochs=1)

A stream's last batches hold padding, and ranks come to their ends at different steps. So `eval_loss` is the mean over
all targets of all ranks, where the Trainer takes the mean of its batches' means.
"""

from __future__ import annotations

import math
from typing import Any

from gristmill.core.extras import extra

with extra("hf", __name__):
    import torch
    from torch import distributed
    from torch.utils.data import DataLoader, Dataset
    from transformers import Trainer

from gristmill.adapters.hf_stream import CausalLMStream
from gristmill.adapters.parcel import Tensors
from gristmill.core.errors import ConfigError
from gristmill.loader.fill import IGNORED


class EvaluatedTrainer(Trainer):
    """A Trainer to which a stream that ends may be given where it evaluates or predicts."""

    _losses: Losses | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        given = self.eval_dataset
        for data in given.values() if isinstance(given, dict) else [given]:
            if isinstance(data, CausalLMStream):  # now, not at the first evaluation
                check_ends(data)

    def get_eval_dataloader(self, eval_dataset: str | Dataset[Any] | None = None) -> DataLoader[Any]:
        """This rank's rows of a stream from its start, or the Trainer's own."""
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(data, str) and isinstance(self.eval_dataset, dict):
            data = self.eval_dataset[data]
        return self._streamed(data) if isinstance(data, CausalLMStream) else super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Dataset[Any]) -> DataLoader[Any]:
        """The same, to predict."""
        if isinstance(test_dataset, CausalLMStream):
            return self._streamed(test_dataset)
        return super().get_test_dataloader(test_dataset)

    def _streamed(self, data: CausalLMStream) -> DataLoader[Tensors]:
        check_ends(data)
        rank, world_size = self._ranks()
        if world_size not in (1, self.args.world_size):  # ranks would end apart: those of a batch alone say when
            raise ConfigError(
                "Where ranks share rows, as tensor and context parallel ones do, the Trainer cannot evaluate on a "
                "stream: give it CausalLMDataset(plan)."
            )
        parts = _parts(data.stream.batch_size // world_size, self.args.eval_batch_size)
        data.split(rank, world_size, parts)
        apart = torch.Generator()  # a DataLoader draws a seed of its own, else from what dropout draws from
        return DataLoader(data, batch_size=None, pin_memory=self.args.dataloader_pin_memory, generator=apart)

    def _ranks(self) -> tuple[int, int]:
        """(rank, world size) among those that split a batch: tensor and context parallel ranks share their rows."""
        if self.get_sp_size() > 1:
            raise ConfigError("Sequence parallelism splits batches in its own way: use context parallelism instead.")
        sharing = self.get_tp_size() * self.get_cp_size()
        return self.args.process_index // sharing, self.args.world_size // sharing

    def evaluation_loop(self, dataloader: DataLoader[Any], *args: Any, **options: Any) -> Any:
        """The Trainer's loop, whose loss on a stream is the mean over all targets."""
        if not isinstance(dataloader.dataset, CausalLMStream):
            return super().evaluation_loop(dataloader, *args, **options)
        self._losses = Losses()
        try:
            found = super().evaluation_loop(dataloader, *args, **options)
            mean = self._losses.mean()
        finally:
            self._losses = None
        name = f"{options.get('metric_key_prefix', 'eval')}_loss"
        if found.metrics and name in found.metrics:
            found.metrics[name] = mean
        return found

    def compute_loss(self, *args: Any, **options: Any) -> Any:
        """Of a stream that is evaluated: the mean over this rank's targets, however many others have."""
        if self._losses is not None:
            options["num_items_in_batch"] = None
        return super().compute_loss(*args, **options)

    def prediction_step(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        """A microbatch, whose loss is counted by its targets."""
        found = super().prediction_step(model, inputs, *args, **options)
        if self._losses is not None and found[0] is not None:
            self._losses.add(found[0], inputs["labels"])
        return found


class Losses:
    """What microbatches of a rank cost, and how many targets each had: one of padding alone has none."""

    def __init__(self) -> None:
        self._found: list[torch.Tensor] = []

    def add(self, loss: torch.Tensor, labels: torch.Tensor) -> None:
        """The mean loss over those labels that are targets."""
        count = (labels != IGNORED).sum().to(loss.device)
        self._found.append(torch.stack([torch.where(count > 0, loss * count, 0.0), count]).float())

    def mean(self) -> float:
        """Over the targets of all ranks, all of which call this."""
        own = torch.stack(self._found).cpu().double().sum(0).tolist() if self._found else [0.0, 0.0]
        found = [own]
        if distributed.is_available() and distributed.is_initialized():
            found = found * distributed.get_world_size()
            distributed.all_gather_object(found, own)
        totals, counts = zip(*found, strict=True)
        return sum(totals) / sum(counts) if sum(counts) else math.nan


def check_ends(data: CausalLMStream) -> None:
    """Refuse a stream on which an evaluation would never end."""
    if data.stream.epochs is None:
        raise ConfigError("A stream to evaluate on has an end: say batch(..., epochs=1).")


def _parts(rows: int, most: int) -> int:
    """The fewest equal parts of so many rows of which none has more than `most`."""
    return next(parts for parts in range(1, rows + 1) if rows % parts == 0 and rows // parts <= most)
