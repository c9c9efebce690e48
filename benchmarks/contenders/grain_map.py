"""Grain: a random-access source, globally shuffled, batched, and made an iterator."""

from collections.abc import Iterator
from typing import Any

import grain
import numpy as np
from numpy.typing import NDArray

from contenders.base import Contender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, WINDOWS, Corpus

READ_AHEAD = 500  # grain's default, for settings with threads


class Grain(Contender):
    """It reads the corpus in place through a source of ours, and resumes by its iterator's state."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        samples = grain.MapDataset.source(_Windows(corpus)).seed(SEED).shuffle().repeat()
        batches = samples.batch(BATCH_SIZE, drop_remainder=True).to_iter_dataset(_reading(setting.threads))
        if setting.workers:
            batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=setting.workers))
        self.iterator = iter(batches)

    def epoch(self) -> Iterator[NDArray[np.int64]]:
        """Endless, because the data set repeats itself, with a new order each time."""
        yield from self.iterator

    def state(self) -> Any:
        """The iterator's own state."""
        return self.iterator.get_state()

    def restore(self, state: dict[str, Any]) -> None:
        """Set the iterator's own state."""
        self.iterator.set_state(state)


class _Windows:
    """The corpus as grain wants a source: a length and single items."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.windows = corpus.windows()

    def __len__(self) -> int:
        return WINDOWS

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        row: NDArray[np.int64] = self.windows[index].astype(np.int64)
        return row

    def __reduce__(self) -> tuple[type["_Windows"], tuple[Corpus]]:
        # Worker processes get a pickled copy: a memory map would travel as 400 MB of data.
        return _Windows, (self.corpus,)


def _reading(threads: int) -> grain.ReadOptions:
    return grain.ReadOptions(num_threads=threads, prefetch_buffer_size=READ_AHEAD if threads else 0)


CONTENDER = Grain
