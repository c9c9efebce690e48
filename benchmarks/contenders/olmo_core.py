"""OLMo-core's NumpyFSLDataset under its NumpyFSLDataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from olmo_core.data import NumpyFSLDataLoader
from olmo_core.data.collator import DataCollator
from olmo_core.data.numpy_dataset import NumpyFSLDataset

from contenders.base import Contender
from contenders.registry import Setting
from harness.corpus import EOS, SEED, SEQ_LEN, TOKENS_PER_BATCH, Corpus


class OlmoCore(Contender):
    """It reads the corpus in place, shuffles globally, and resumes by its own state."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        work_dir = corpus.root / "olmo-core-work"
        dataset = _dataset(corpus)
        dataset.work_dir = work_dir
        self.loader = NumpyFSLDataLoader(
            dataset,
            collator=DataCollator(pad_token_id=EOS),
            global_batch_size=TOKENS_PER_BATCH,
            work_dir=work_dir,
            seed=SEED,
            num_threads=setting.threads,
            num_workers=setting.workers,
        )
        self.resumed_epoch: int | None = None

    def epoch(self) -> Iterator[torch.Tensor]:
        """One epoch in the loader's own order of calls: reshuffle, iterate, reset."""
        self.loader.reshuffle(epoch=self.resumed_epoch)
        self.resumed_epoch = None
        for batch in self.loader:
            yield batch["input_ids"]
        self.loader.reset()

    def state(self) -> Any:
        """The loader's own state."""
        return self.loader.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Load the loader's own state."""
        self.loader.load_state_dict(state)
        self.resumed_epoch = state["epoch"]


def _dataset(corpus: Corpus) -> NumpyFSLDataset:
    return NumpyFSLDataset(
        corpus.tokens_path,
        sequence_length=SEQ_LEN,
        pad_token_id=EOS,
        eos_token_id=EOS,
        vocab_size=EOS + 1,
    )


CONTENDER = OlmoCore
