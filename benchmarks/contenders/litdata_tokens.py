"""LitData: optimized chunks on local disk, read by its TokensLoader under its StreamingDataLoader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
from litdata.streaming import Cache

from contenders.base import ConvertedContender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus

WINDOWS_PER_CHUNK = 16_384  # 64 MiB, the size that LitData's documentation uses for tokens


class LitData(ConvertedContender):
    """It shuffles chunks and then samples inside a chunk, and resumes by its own state."""

    format_name = "litdata-chunks"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        dataset = StreamingDataset(
            str(self.directory),
            item_loader=TokensLoader(block_size=SEQ_LEN),
            shuffle=True,
            drop_last=True,
            seed=SEED,
        )
        self.loader = StreamingDataLoader(
            dataset,
            batch_size=BATCH_SIZE,
            num_workers=setting.workers,
            drop_last=True,
            collate_fn=stack,
            persistent_workers=setting.workers > 0,
        )

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """Whole windows in each chunk, so that its blocks are the windows of the corpus."""
        write_chunks(corpus, directory, WINDOWS_PER_CHUNK)

    def epoch(self) -> Iterator[torch.Tensor]:
        """One pass of the loader."""
        yield from self.loader

    def state(self) -> Any:
        """The loader's own state."""
        return self.loader.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Load the loader's own state."""
        self.loader.load_state_dict(state)


def write_chunks(corpus: Corpus, directory: Path, windows_per_chunk: int) -> None:
    """The windows of the corpus in chunks of so many."""
    chunk_tokens = windows_per_chunk * SEQ_LEN
    cache = Cache(str(directory), chunk_size=chunk_tokens, item_loader=TokensLoader(block_size=SEQ_LEN))
    for i, row in enumerate(corpus.windows()):
        cache[i] = torch.from_numpy(np.array(row))
    cache.done()
    cache.merge()


def stack(rows: list[torch.Tensor]) -> torch.Tensor:
    """Rows as one int64 tensor."""
    return torch.stack(rows).to(torch.int64)


CONTENDER = LitData
