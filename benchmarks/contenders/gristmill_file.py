"""Gristmill on the corpus as one file."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contenders.base import Contender
from contenders.registry import Setting
from gristmill import Loader, Plan, PlanOptions
from gristmill import open as open_store
from harness.corpus import BATCH_SIZE, EOS, SEED, SEQ_LEN, Corpus

STEPS = 1_000_000  # more than any run takes; sources begin new epochs by themselves


class Gristmill(Contender):
    """The public surface: open stores, make a plan, iterate a loader.

    Names are imported one by one, since `import gristmill` alone loads nothing that the first batch needs.
    """

    keys: tuple[str, ...] = ()
    options = PlanOptions()

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        super().__init__(corpus, setting)
        self.loader = Loader(self.plan(), keys=self.keys, threads=setting.threads)

    def plan(self) -> Plan:
        """One source of everything, shuffled globally."""
        return Plan(
            sources={"all": self.store()},
            seq_len=SEQ_LEN,
            batch_size=BATCH_SIZE,
            seed=SEED,
            steps=STEPS,
            options=self.options,
        )

    def store(self) -> Any:
        """The file, opened in place."""
        return open_store(self.corpus.tokens_path, dtype="uint16", eos=EOS)

    def epoch(self) -> Iterator[NDArray[np.int64]]:
        """The loader's own iteration; a plan of so many steps does not end here."""
        for batch in self.loader:
            yield batch["input_ids"]

    def state(self) -> dict[str, Any]:
        """The loader's own state."""
        return self.loader.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Load the loader's own state."""
        self.loader.load_state_dict(state)


CONTENDER = Gristmill
