"""Gristmill with whole documents packed into windows, and every key that a batch can have."""

from contenders.gristmill_file import Gristmill
from gristmill import PlanOptions, index
from gristmill import open as open_store
from harness.corpus import EOS, SEQ_LEN, Corpus


class GristmillPack(Gristmill):
    """The most expensive batch: packed, with labels, documents, positions and sequence lengths."""

    windowed = False
    keys = ("labels", "doc_ids", "position_ids", "cu_seqlens")
    options = PlanOptions(cut="pack")

    @classmethod
    def prepare(cls, corpus: Corpus) -> None:
        """Build the index that `pack` reads."""
        index(open_store(corpus.tokens_path, dtype="uint16", eos=EOS), seq_len=SEQ_LEN)


CONTENDER = GristmillPack
