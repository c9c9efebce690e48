"""MosaicML streaming from a bucket, with a cache on local disk."""

from pathlib import Path

import numpy as np
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

from bucket.names import at, cache_folder
from contenders.base import Contender
from contenders.mosaic import Mosaic, stack
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus

SHARD_BYTES = 8 << 20  # of 64 MiB, its default, the first batch waits for all


class MosaicBucket(Mosaic):
    """Shards are downloaded whole, by threads that run ahead, and kept in the cache."""

    format_name = "mosaic-mds-small"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        Contender.__init__(self, corpus, setting)
        dataset = StreamingDataset(
            remote=at(self.format_name),
            local=cache_folder(),
            shuffle=True,
            shuffle_seed=SEED,
            batch_size=BATCH_SIZE,
            predownload=64 * BATCH_SIZE,
            num_canonical_nodes=1,
        )
        self.loader = StreamingDataLoader(
            dataset, batch_size=BATCH_SIZE, collate_fn=stack, num_workers=setting.workers, drop_last=True
        )

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """One fixed-size array column, the compact form for token windows."""
        columns = {"tokens": f"ndarray:uint16:{SEQ_LEN}"}
        with MDSWriter(out=str(directory), columns=columns, size_limit=SHARD_BYTES) as writer:
            for row in corpus.windows():
                writer.write({"tokens": np.asarray(row)})


CONTENDER = MosaicBucket
