"""What is no loader by itself, under torch's DataLoader: each worker process runs the loop for itself."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from contenders.base import Contender
from contenders.registry import Setting
from harness.corpus import Corpus


class InWorkers(Contender):
    """A contender's endless batches, out of worker processes; only inputs travel, in one tensor."""

    kind: type[Contender]

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        stream = _Stream(self.kind(corpus, setting))
        self.loader = DataLoader(stream, batch_size=None, num_workers=setting.workers)

    def epoch(self) -> Iterator[torch.Tensor]:
        """The DataLoader's own iteration."""
        yield from self.loader


class _Stream(IterableDataset[Any]):
    def __init__(self, contender: Contender) -> None:
        self.contender = contender

    def __iter__(self) -> Iterator[Any]:
        return self.contender.batches()
