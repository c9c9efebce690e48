"""WebDataset: tar shards of raw samples, shuffled by shard and through a buffer."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import webdataset

from contenders.base import ConvertedContender
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, WINDOWS, Corpus

SHARDS = 16
SHUFFLE_BUFFER = 1_000


class WebDataset(ConvertedContender):
    """Shards are drawn anew without end, as its documentation advises for training; it saves no state."""

    format_name = "webdataset-tar"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        urls = [str(path) for path in sorted(self.directory.glob("*.tar"))]
        dataset = (
            webdataset.WebDataset(urls, resampled=True, shardshuffle=False)
            .shuffle(SHUFFLE_BUFFER)
            .batched(BATCH_SIZE, collation_fn=_stack, partial=False)
        )
        self.loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=setting.workers)

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """Equal tar files with one member a window."""
        for shard, ids in enumerate(np.array_split(np.arange(WINDOWS), SHARDS)):
            with tarfile.open(directory / f"shard-{shard:05d}.tar", "w") as tar:
                for i in ids:
                    _add(tar, f"{i:08d}.u16", corpus.windows()[i].tobytes())

    def epoch(self) -> Iterator[torch.Tensor]:
        """Endless, because shards are resampled."""
        yield from self.loader


def _add(tar: tarfile.TarFile, name: str, payload: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(payload)
    tar.addfile(member, io.BytesIO(payload))


def _stack(samples: list[dict[str, bytes]]) -> torch.Tensor:
    rows = np.stack([np.frombuffer(sample["u16"], dtype=np.uint16) for sample in samples])
    return torch.from_numpy(rows.astype(np.int64))


CONTENDER = WebDataset
