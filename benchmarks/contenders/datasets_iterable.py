"""Hugging Face datasets, iterable: the same Arrow table read as a stream with a shuffle buffer."""

import numpy as np
import torch
from datasets import load_from_disk
from torchdata.stateful_dataloader import StatefulDataLoader

from contenders.datasets_map import DatasetsMap
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, Corpus

SHARDS = 16
SHUFFLE_BUFFER = 1_000


class DatasetsIterable(DatasetsMap):
    """It batches inside the data set, its fastest form, and resumes by its own state, buffer refilled."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super(DatasetsMap, self).__init__(corpus, setting)
        stream = load_from_disk(str(self.directory)).to_iterable_dataset(num_shards=SHARDS)
        # One input shard at a time: with more, the stream counts as a single shard and admits one worker.
        shuffled = stream.shuffle(seed=SEED, buffer_size=SHUFFLE_BUFFER, max_buffer_input_shards=1)
        self.loader = StatefulDataLoader(
            shuffled.with_format("numpy").batch(BATCH_SIZE, drop_last_batch=True),
            batch_size=None,
            collate_fn=_input_ids,
            num_workers=setting.workers,
        )


def _input_ids(batch: dict[str, np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(batch["input_ids"].astype(np.int64))


CONTENDER = DatasetsIterable
