"""Several streams, and stores among them, as one, by exact weights.

mixed = gm.mix({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3}).batch(64, seed=0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gristmill.core.arguments import as_flag, as_mapping, as_whole, refuse
from gristmill.core.errors import ConfigError
from gristmill.core.options import as_options
from gristmill.order.augment import Augmentation, as_augmentations
from gristmill.order.mix import exact_weights
from gristmill.order.options import Locality
from gristmill.store.reader import Store
from gristmill.streams.stream import Batches, Stream


def mix(
    sources: Mapping[str, Stream | Store],
    weights: Mapping[str, object],
    *,
    augment: Sequence[Augmentation | Callable[..., object]] = (),
    locality: Locality | Mapping[str, object] | None = None,
) -> Mixture:
    """Several streams, cut alike, as one, and opened stores among them: of each block of rows (4,096 unless more are
    needed) every source gives its share, exactly, as in a plan. Their names are part of the order.

    A store gives the rows of a plan of its name, cut as the streams are; `augment` and `locality` are that plan's,
    streams have their own. Streams are numbered first, then stores.
    """
    said = "a mapping of names to streams that are cut, gm.stream(...)...pack(2048), and opened stores"
    named = as_mapping("sources", sources, said)
    streams = {name: each for name, each in named.items() if isinstance(each, Stream)}
    stores = {name: each for name, each in named.items() if isinstance(each, Store)}
    if not named or len(streams) + len(stores) < len(named):
        raise refuse("sources", said, sources)
    if not streams:
        raise ConfigError("A mix of stores alone is a plan: gm.Plan(sources={...}, weights={...}).")
    if (asked := as_augmentations(augment)) and not stores:
        raise ConfigError("augment is for the stores of a mix: say stream.augment(...) of each stream.")
    if locality is not None and not stores:
        raise ConfigError("locality is for the stores of a mix: streams read what lies together anyway.")
    near = None if locality is None else as_options(Locality, locality, "locality")
    shares = as_mapping("weights", weights, "a mapping of the sources' names to their shares")
    exact = exact_weights(shares, (*streams, *stores), "the mix")
    renamed = tuple(replace(each, name=name) for name, each in streams.items())
    return Mixture(renamed, exact, tuple(stores.items()), asked, near)


@dataclass(frozen=True)
class Mixture:
    """Streams, stores by name, the exact shares of all, what is done to the documents of stores, and their shuffle."""

    streams: tuple[Stream, ...]
    weights: tuple[Fraction, ...]
    stores: tuple[tuple[str, Store], ...] = ()
    augment: tuple[Augmentation, ...] = ()
    locality: Locality | None = None

    def batch(self, batch_size: int, *, seed: int = 0, shuffle: bool = True, hold: int = 1) -> Batches:
        """The global batches, without end: `batch_size` rows each, the options of `Stream.batch`."""
        made = Batches(self.streams, self.weights, as_whole("batch_size", batch_size), as_whole("seed", seed, None),
                       as_flag("shuffle", shuffle), None, as_whole("hold", hold), self.stores, self.augment,
                       self.locality)  # fmt: skip
        _ = made.plan  # which may refuse
        return made
