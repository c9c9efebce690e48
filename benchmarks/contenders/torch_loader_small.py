"""Gristmill's TorchLoader in batches of 64 KiB."""

from contenders.gristmill_small import GristmillSmall
from contenders.torch_loader import TorchTensors


class TorchTensorsSmall(TorchTensors, GristmillSmall):
    """One file, 8 x 1,024."""


CONTENDER = TorchTensorsSmall
