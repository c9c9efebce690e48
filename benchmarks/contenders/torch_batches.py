"""Gristmill's BatchDataset under torch's DataLoader."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader

from contenders.base import Contender
from contenders.gristmill_file import Gristmill
from contenders.registry import Setting
from gristmill.adapters.torch import BatchDataset
from harness.corpus import Corpus


class TorchBatches(Gristmill):
    """Whole batches out of worker processes; sample_ids come along with input_ids."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        Contender.__init__(self, corpus, setting)
        self.batched = DataLoader(BatchDataset(self.plan()), batch_size=None, num_workers=setting.workers)

    def epoch(self) -> Iterator[torch.Tensor]:
        """The DataLoader's own iteration."""
        for batch in self.batched:
            yield batch["input_ids"]


CONTENDER = TorchBatches
