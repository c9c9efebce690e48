"""The yardstick: fancy indexing of one memory map and the copy to int64, and nothing else."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from contenders.base import Contender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, Corpus


class BareGather(Contender):
    """What numpy alone can do when nobody asks for resume, shards, mixes or ranks."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        self.windows = corpus.windows()
        self.rng = np.random.default_rng(SEED)

    def epoch(self) -> Iterator[NDArray[np.int64]]:
        """All windows once, in random order."""
        for ids in self.rng.permutation(len(self.windows)).reshape(-1, BATCH_SIZE):
            yield self.windows[ids].astype(np.int64)


CONTENDER = BareGather
