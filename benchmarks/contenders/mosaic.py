"""MosaicML streaming: MDS shards on local disk under its own StreamingDataLoader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

from contenders.base import ConvertedContender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus


class Mosaic(ConvertedContender):
    """It shuffles shards and blocks of samples with its default algorithm, and resumes by its own state."""

    format_name = "mosaic-mds"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        directory = str(self.directory)
        dataset = StreamingDataset(local=directory, shuffle=True, shuffle_seed=SEED, batch_size=BATCH_SIZE)
        self.loader = StreamingDataLoader(
            dataset,
            batch_size=BATCH_SIZE,
            collate_fn=stack,
            num_workers=setting.workers,
            drop_last=True,
            persistent_workers=setting.workers > 0,
        )

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """One fixed-size array column, the compact form for token windows."""
        columns = {"tokens": f"ndarray:uint16:{SEQ_LEN}"}
        with MDSWriter(out=str(directory), columns=columns) as writer:
            for row in corpus.windows():
                writer.write({"tokens": np.asarray(row)})

    def epoch(self) -> Iterator[torch.Tensor]:
        """One pass of the loader."""
        yield from self.loader

    def state(self) -> Any:
        """The loader's own state."""
        return self.loader.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Load the loader's own state."""
        self.loader.load_state_dict(state)


def stack(samples: list[dict[str, np.ndarray]]) -> torch.Tensor:
    """Rows as one int64 tensor."""
    rows = np.stack([sample["tokens"] for sample in samples])
    return torch.from_numpy(rows.astype(np.int64))


CONTENDER = Mosaic
