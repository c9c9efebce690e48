"""Gristmill from a bucket, shuffled in two levels."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bucket.names import at, cache_folder
from contenders.base import Contender
from contenders.registry import Setting
from gristmill import Loader, Plan, storage
from gristmill import open as open_store
from gristmill.core.kernels import xxh3
from gristmill.places import remote
from gristmill.testing import tiny_store
from harness.corpus import BATCH_SIZE, SEED, SEQ_LEN, Corpus

# Gristmill imports Numba, obstore and compiled code when they are first needed, where others import all at once: none
# of it is timed.
NEEDED = (xxh3, remote)
with (
    tempfile.TemporaryDirectory() as folder,
    Loader(Plan(tiny_store(Path(folder)), seq_len=16, batch_size=4)) as loader,
):
    next(iter(loader))


class GristmillBucket(Contender):
    """Blocks of 2 MiB, a window of 32 of them: half of the data; what was fetched stays in a cache on local disk."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        storage("s3://", cache=cache_folder(), cache_bytes="10GB")
        locality = {"block": 512, "window": 32}
        plan = Plan(open_store(at("small/train")), seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=SEED,
                    options={"locality": locality})  # fmt: skip
        self.loader = Loader(plan, threads=setting.threads)

    def epoch(self) -> Iterator[NDArray[np.int64]]:
        """The loader's own iteration."""
        for batch in self.loader:
            yield batch["input_ids"]


CONTENDER = GristmillBucket
