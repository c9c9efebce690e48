"""A source of a plan: a named store under the plan's cut and seed."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.order.cut import Cut
from gristmill.order.epochs import EpochOrder
from gristmill.order.locality import Interleaving
from gristmill.order.options import Locality
from gristmill.order.tokens import Tokens


@dataclass(frozen=True)
class Source:
    """A name, which is part of the order, and the store that it stands for, cut."""

    name: str
    cut: Cut
    seed: int
    shuffle: bool
    locality: Locality | None = None

    @property
    def store(self) -> Tokens:
        """The store, whole."""
        return self.cut.store

    def order(self, shards: int, seq_len: int, unit: int) -> EpochOrder:
        """The epochs' order over the first `shards` shards in sequences of `seq_len`."""
        units, parts = self.cut.units(shards, seq_len, unit)
        if units < 1:
            raise ConfigError(
                f"Source {self.name!r} has {self.store.tokens_in(shards):,} tokens, too few for one sequence of "
                f"{unit:,}: lower seq_len or unit, or add text."
            )
        key = derive_key(self.seed, "order", self.name)
        if self.locality is None:
            return EpochOrder(key, units, parts, self.shuffle)
        block = min(max(self.locality.block // parts, 1), units)
        return EpochOrder(key, units, parts, self.shuffle, Interleaving(units, block, self.locality.window))
