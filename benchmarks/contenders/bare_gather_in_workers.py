"""The bare numpy gather under torch's DataLoader."""

from contenders.bare_gather import BareGather
from contenders.in_workers import InWorkers


class BareGatherInWorkers(InWorkers):
    """The least that any loader under a DataLoader has to do."""

    kind = BareGather


CONTENDER = BareGatherInWorkers
