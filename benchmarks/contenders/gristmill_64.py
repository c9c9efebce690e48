"""Gristmill on two sources of 32 shards each, mixed."""

from contenders.gristmill_file import STEPS, Gristmill
from gristmill import Plan
from gristmill import open as open_store
from harness.corpus import BATCH_SIZE, EOS, SEED, SEQ_LEN, Corpus

SHARDS = 64
WEIGHTS = {"web": 0.7, "code": 0.3}


class GristmillMixed(Gristmill):
    """A plan as a training run has it: two sources, weights, many files."""

    windowed = False  # the second source begins inside a window of the whole corpus

    @classmethod
    def prepare(cls, corpus: Corpus) -> None:
        """Write the shards."""
        corpus.shards(SHARDS)

    def plan(self) -> Plan:
        """Half of the shards in each source."""
        shards = self.corpus.shards(SHARDS)
        halves = {"web": shards[: SHARDS // 2], "code": shards[SHARDS // 2 :]}
        return Plan(
            sources={name: open_store(paths, dtype="uint16", eos=EOS) for name, paths in halves.items()},
            weights=WEIGHTS,
            seq_len=SEQ_LEN,
            batch_size=BATCH_SIZE,
            seed=SEED,
            steps=STEPS,
        )


CONTENDER = GristmillMixed
