"""The loop of nanoGPT under torch's DataLoader."""

from contenders.in_workers import InWorkers
from contenders.nanogpt import NanoGPT


class NanoGPTInWorkers(InWorkers):
    """Targets are made in the worker, and only inputs are sent."""

    kind = NanoGPT
    windowed = False


CONTENDER = NanoGPTInWorkers
