"""A store as its report shows it, all of it in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from gristmill.figures.carried import FieldFigures, dropped_languages, field_figures
from gristmill.figures.clusters import ClusterFigures, cluster_figures
from gristmill.figures.dropped import Dropped, DroppedRow, dropped
from gristmill.figures.lengths import LengthFigures, length_figures
from gristmill.figures.near_limits import near_limits
from gristmill.figures.provenance import Provenance, provenance
from gristmill.figures.store import StoreFigures, store_figures
from gristmill.figures.usage import UsageFigures, usage_figures
from gristmill.figures.warnings import store_warnings
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.account import DROPPED
from gristmill.store.manifest import SPLITS, FunnelRow
from gristmill.store.opening import open_split
from gristmill.store.reader import Store

_EXAMPLES = 3


@dataclass(frozen=True)
class MixPart:
    """A source in the splits: its documents and tokens, their shares, and the share that the recipe's mix wants."""

    source: str
    documents: int
    tokens: int
    document_share: float
    token_share: float
    target: float | None


@dataclass(frozen=True)
class StorePicture:
    """What the report of a store shows. Without an account (joined, imported stores) there is none of what it tells."""

    store: StoreFigures
    mix: list[MixPart]
    mix_unit: str
    lengths: LengthFigures
    usage: UsageFigures
    fields: Mapping[str, FieldFigures]
    dropped_languages: FieldFigures | None
    clusters: ClusterFigures | None
    dropped: Dropped | None
    near_limits: Mapping[str, list[DroppedRow]]
    provenance: Provenance
    warnings: list[str]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {**vars(self), "store": self.store.to_dict()}


def store_picture(root: Address) -> StorePicture:
    """Look at the whole store at `root`."""
    store = store_figures(root)
    stores = opened(root, store)
    gone = dropped(root, {}, _EXAMPLES) if place_at(root / DROPPED).exists() else None
    with ThreadPoolExecutor(1) as beside:  # decoding and judging, without Python's lock, take half of the time
        near = beside.submit(near_limits, store.manifest, stores, {group.rule for group in gone.groups} if gone else ())
        return _picture(root, store, stores, gone, near)


def _picture(
    root: Address,
    store: StoreFigures,
    stores: Sequence[Store],
    gone: Dropped | None,
    near: Future[dict[str, list[DroppedRow]]],
) -> StorePicture:
    clusters = cluster_figures(root, stores)
    return StorePicture(
        store=store,
        mix=mix_parts(store.manifest.funnel, _mix(store)),
        mix_unit=str(_mix(store).get("unit", "documents")),
        lengths=length_figures(stores),
        usage=usage_figures(stores, store.manifest.vocab_size),
        fields=field_figures(stores),
        dropped_languages=dropped_languages(root),
        clusters=clusters,
        dropped=gone,
        provenance=provenance(root),
        warnings=store_warnings(store.manifest, store.steps, clusters),
        near_limits=near.result(),
    )


def opened(root: Address, store: StoreFigures) -> list[Store]:
    """The splits that hold anything."""
    return [open_split(root, name) for name, split in store.splits.items() if split.shards]


def _mix(store: StoreFigures) -> Mapping[str, object]:
    found = store.manifest.recipe.get("mix")
    return found if isinstance(found, Mapping) else {}


def mix_parts(rows: Sequence[FunnelRow], mix: Mapping[str, object]) -> list[MixPart]:
    """What the splits hold of each source, beside the weights of a recipe's mix."""
    given = mix.get("weights")
    weights = {str(name): float(weight) for name, weight in given.items()} if isinstance(given, Mapping) else {}
    own = [row for row in rows if row["stage"] in SPLITS]
    documents, tokens = sum(row["documents"] for row in own), sum(row["tokens"] for row in own)
    return [_part(name, [row for row in own if row["source"] == name], documents, tokens,
                  weights.get(name, 0.0) / sum(weights.values()) if weights else None)
            for name in dict.fromkeys(row["source"] for row in own)]  # fmt: skip


def _part(name: str, own: Sequence[FunnelRow], documents: int, tokens: int, target: float | None) -> MixPart:
    mine, held = sum(row["documents"] for row in own), sum(row["tokens"] for row in own)
    return MixPart(name, mine, held, mine / max(documents, 1), held / max(tokens, 1), target)
