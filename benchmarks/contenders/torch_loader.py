"""Gristmill's TorchLoader on the corpus as one file."""

from contenders.base import Contender
from contenders.gristmill_file import Gristmill
from contenders.registry import Setting
from gristmill.adapters.torch import TorchLoader
from harness.corpus import Corpus


class TorchTensors(Gristmill):
    """The numpy loader's plan and batches, as tensors."""

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        Contender.__init__(self, corpus, setting)
        self.loader = TorchLoader(self.plan(), threads=setting.threads)


CONTENDER = TorchTensors
