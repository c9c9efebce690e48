"""The one file that knows of ranks: rank r of w takes rows r, r + w, r + 2w, ... of each step's global batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gristmill.core.arguments import as_whole
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.order.plan import Plan


@dataclass(frozen=True)
class Partition:
    """One rank of a world of `world_size`."""

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        """NumPy's whole numbers become Python's."""
        object.__setattr__(self, "world_size", as_whole("world_size", self.world_size))
        object.__setattr__(self, "rank", as_whole("rank", self.rank, 0))

    def check(self, plan: Plan) -> None:
        """Refuse a rank that does not exist, or a batch that the world size does not divide."""
        for segment in plan.segments:
            self.check_size(segment.batch_size, f" (from step {segment.from_step})")

    def check_size(self, batch_size: int, where: str = "") -> None:
        """The same for batches of one size; `where` tells which these are."""
        if not self.rank < self.world_size:
            raise ConfigError(f"There is no rank {self.rank} in a world of {self.world_size}.")
        if batch_size % self.world_size:
            raise ConfigError(
                f"batch_size {batch_size}{where} cannot be split over {self.world_size} ranks: make it a multiple of "
                f"{self.world_size}."
            )

    def rows(self, batch_size: int) -> int:
        """Rows of this rank in every batch, padding rows of a short last batch included."""
        return batch_size // self.world_size

    def own(self, samples: Ints, batch_size: int) -> Ints:
        """This rank's rows of the samples of whole steps, the last of which may be short."""
        whole = len(samples) // batch_size * batch_size
        rows = samples[:whole].reshape(-1, batch_size, 3)[:, self.rank :: self.world_size].reshape(-1, 3)
        return np.concatenate([rows, samples[whole + self.rank :: self.world_size]])
