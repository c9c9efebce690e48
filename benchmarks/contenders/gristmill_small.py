"""Gristmill in batches of 64 KiB: what a batch costs beside its tokens."""

from contenders.gristmill_file import STEPS, Gristmill
from gristmill import Plan
from harness.corpus import SEED


class GristmillSmall(Gristmill):
    """One file, 8 x 1,024."""

    shape = (8, 1_024)
    windowed = False  # half as long as the windows of the corpus

    def plan(self) -> Plan:
        """One source of everything, shuffled globally."""
        batch_size, seq_len = self.shape
        return Plan({"all": self.store()}, seq_len=seq_len, batch_size=batch_size, seed=SEED, steps=STEPS)


CONTENDER = GristmillSmall
