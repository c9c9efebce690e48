"""Gristmill on the corpus in 10,000 shards."""

from typing import Any

from contenders.gristmill_file import Gristmill
from gristmill import open as open_store
from harness.corpus import EOS, Corpus

SHARDS = 10_000


class GristmillManyShards(Gristmill):
    """One store of many files; windows run across their borders, as in one file."""

    @classmethod
    def prepare(cls, corpus: Corpus) -> None:
        """Write the shards."""
        corpus.shards(SHARDS)

    def store(self) -> Any:
        """All shards as one store."""
        return open_store(self.corpus.shards(SHARDS), dtype="uint16", eos=EOS)


CONTENDER = GristmillManyShards
