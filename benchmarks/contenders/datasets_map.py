"""Hugging Face datasets, map-style: an Arrow table on disk under a torch DataLoader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import torch
from datasets import Dataset, load_from_disk
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import BatchSampler, RandomSampler

from contenders.base import ConvertedContender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus


class DatasetsMap(ConvertedContender):
    """Sixty-four rows are fetched with one call, which is faster than the DataLoader's row by row.

    The library keeps no state of its own for map-style data; torchdata's loader, which serves the same
    batches at the same speed as torch's, saves and restores the sampler.
    """

    format_name = "datasets-arrow"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        dataset = load_from_disk(str(self.directory)).with_format("torch")
        sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(SEED))
        self.loader = StatefulDataLoader(
            dataset,
            sampler=BatchSampler(sampler, BATCH_SIZE, drop_last=True),
            batch_size=None,
            collate_fn=_input_ids,
            num_workers=setting.workers,
        )

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """Save the windows as one column of fixed-size uint16 lists."""
        tokens = pyarrow.array(corpus.windows().reshape(-1))
        rows = pyarrow.FixedSizeListArray.from_arrays(tokens, SEQ_LEN)
        Dataset(pyarrow.table({"input_ids": rows})).save_to_disk(str(directory))

    def epoch(self) -> Iterator[torch.Tensor]:
        """One pass of the loader."""
        yield from self.loader

    def state(self) -> Any:
        """The state of torchdata's loader."""
        return self.loader.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Load the state of torchdata's loader."""
        self.loader.load_state_dict(state)


def _input_ids(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return batch["input_ids"].to(torch.int64)


CONTENDER = DatasetsMap
