"""The loop of nanoGPT: random offsets, one torch tensor a row for inputs and targets, then a stack."""

from collections.abc import Iterator

import numpy as np
import torch

from contenders.base import Contender
from harness.corpus import BATCH_SIZE, SEQ_LEN, TOKENS


class NanoGPT(Contender):
    """It draws with replacement, so there is no epoch, and it saves no state."""

    windowed = False

    def epoch(self) -> Iterator[torch.Tensor]:
        """Batches without end; targets are made too, as the original does, and only inputs are counted."""
        while True:
            yield self._get_batch()[0]

    def _get_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        # The original opens the map anew for each batch, against a leak in older numpy versions.
        data = np.memmap(self.corpus.tokens_path, dtype=np.uint16, mode="r")
        offsets = torch.randint(TOKENS - SEQ_LEN, (BATCH_SIZE,)).tolist()
        return _stack(data, offsets), _stack(data, [offset + 1 for offset in offsets])


def _stack(data: np.memmap, offsets: list[int]) -> torch.Tensor:
    rows = [torch.from_numpy(data[i : i + SEQ_LEN].astype(np.int64)) for i in offsets]
    return torch.stack(rows)


CONTENDER = NanoGPT
