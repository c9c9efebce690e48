"""LitData from a bucket, with a cache on local disk; it downloads by obstore, as Gristmill does."""

import os
from pathlib import Path

from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
from litdata.streaming import downloader

from bucket.names import at, cache_folder
from contenders.base import Contender
from contenders.litdata_tokens import LitData, stack, write_chunks
from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus

WINDOWS_PER_CHUNK = 2_048  # 8 MiB: of 64 MiB, its default, the first batch waits for all
# It has no option for servers without TLS.
downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True


class LitDataBucket(LitData):
    """Chunks are downloaded whole, by a thread that runs ahead, and kept in the cache."""

    format_name = "litdata-chunks-small"

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        Contender.__init__(self, corpus, setting)
        dataset = StreamingDataset(
            at(self.format_name),
            cache_dir=cache_folder(),
            item_loader=TokensLoader(block_size=SEQ_LEN),
            shuffle=True,
            drop_last=True,
            seed=SEED,
            storage_options={"endpoint_url": os.environ["S3_ENDPOINT_URL"]},
            max_pre_download=8,
        )
        self.loader = StreamingDataLoader(
            dataset, batch_size=BATCH_SIZE, num_workers=setting.workers, drop_last=True, collate_fn=stack
        )

    @classmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """Whole windows in each chunk, so that its blocks are the windows of the corpus."""
        write_chunks(corpus, directory, WINDOWS_PER_CHUNK)


CONTENDER = LitDataBucket
