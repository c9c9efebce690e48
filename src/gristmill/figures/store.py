"""A store, or one of its splits; token files of other systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gristmill.figures.funnel import UNREADABLE, FunnelFigures, sum_up
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, load_manifest
from gristmill.store.opening import open_store
from gristmill.store.reader import Store

# Of a manifest, in the order of the JSON.
_KEYS = ("compression", "dtype", "eos", "vocab_size", "tokenizer", "recipe", "funnel", "versions", "split")


@dataclass(frozen=True)
class SplitFigures:
    """What a split holds; an empty one has no fingerprint."""

    shards: int
    documents: int
    tokens: int
    fingerprint: str


@dataclass(frozen=True)
class StoreFigures:
    """What is known of a store, or of one split alone: figures, and a manifest with the rows of the funnel for it."""

    path: str
    splits: Mapping[str, SplitFigures]
    manifest: Manifest

    @property
    def of_one_split(self) -> bool:
        """Whether it was asked of one split."""
        return list(self.splits) == [Path(self.path).name]

    @property
    def tokens(self) -> int:
        """Those of all splits."""
        return sum(split.tokens for split in self.splits.values())

    @property
    def token_files(self) -> dict[str, list[str]]:
        """The token files of each split in order, as a training config takes them."""
        root = address_of(self.path).parent if self.of_one_split else address_of(self.path)
        return {split: [str(root / entry.path) for entry in self.manifest.splits[split]] for split in self.splits}

    @property
    def has_dropped(self) -> bool:
        """Whether any document is not in it."""
        return any(row.get("reasons") or row["stage"] == UNREADABLE for row in self.manifest.funnel)

    @property
    def steps(self) -> FunnelFigures:
        """The funnel, summed over the sources."""
        return sum_up(self.manifest.funnel)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; `split` where the hashes of documents could not give val its share."""
        keys = _KEYS if self.manifest.split else _KEYS[:-1]
        return {"path": self.path, "splits": self.splits, **{key: getattr(self.manifest, key) for key in keys}}


def store_figures(path: Address) -> StoreFigures:
    """The figures of the store or the split at `path`."""
    split = path.name if path.name in SPLITS and not place_at(path / MANIFEST).exists() else None
    root = path.parent if split else path
    manifest = load_manifest(root)
    splits = {name: _split_figures(open_store(root / name)) for name in SPLITS
              if name in manifest.splits and split in (None, name)}  # fmt: skip
    funnel = [row for row in manifest.funnel if split in (None, row["stage"])]
    return StoreFigures(str(path), splits, replace(manifest, funnel=funnel))


def _split_figures(store: Store) -> SplitFigures:
    name = store.fingerprint if store.num_shards else ""
    return SplitFigures(store.num_shards, store.num_documents, store.num_tokens, name)


def token_figures(store: Store) -> dict[str, str | int | None]:
    """What is known of foreign files."""
    boundary = store.facts.boundary
    return {"path": store.describe(), "dtype": store.dtype.name, "eos": store.eos, "shards": store.num_shards,
            "tokens": store.num_tokens, "boundaries": boundary or "none",
            **({"documents": store.num_documents} if boundary else {})}  # fmt: skip
