"""Gristmill with whole documents packed into windows, and every key that a batch can have."""

import gristmill as gm

from contenders.gristmill_file import Gristmill
from harness.corpus import EOS, SEQ_LEN, Corpus


class GristmillPack(Gristmill):
    """The most expensive batch: packed, with labels, documents, positions and sequence lengths."""

    windowed = False
    keys = ("labels", "doc_ids", "position_ids", "cu_seqlens")
    options = gm.PlanOptions(cut="pack")

    @classmethod
    def prepare(cls, corpus: Corpus) -> None:
        """Build the index that `pack` reads."""
        gm.index(gm.open(corpus.tokens_path, dtype="uint16", eos=EOS), seq_len=SEQ_LEN)


CONTENDER = GristmillPack
