"""What somebody should look at before training on a store: each a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gristmill.figures.clusters import ClusterFigures
from gristmill.figures.funnel import FunnelFigures
from gristmill.store.manifest import FunnelRow, Manifest

_WITHOUT_RULES = ("clean", "empty", "id", "tokenize")
_MANY_TIMES = 4  # Muennighoff et al. 2023: repeats cost little up to about four passes
_GIANT = 0.01
_MOST_GONE = 0.5


def store_warnings(manifest: Manifest, steps: FunnelFigures, clusters: ClusterFigures | None) -> list[str]:
    """Sentences about rules that do nothing or too much, giant clusters, repeats, and an empty val."""
    return [
        *_rules(steps),
        *(_clusters(clusters, steps) if clusters else ()),
        *_repeats(manifest.funnel),
        *_splits(manifest),
    ]


def _rules(steps: FunnelFigures) -> Iterator[str]:
    for name in steps.idle:
        if name not in _WITHOUT_RULES:
            yield f"The rule {name} never fired: it may be misspelt, too lax, or not needed."
    for step in steps.steps:
        if step.reasons and step.kept and step.kept[0] < step.kept[1] * _MOST_GONE:
            yield f"The rule {step.name} dropped {1 - step.kept[0] / step.kept[1]:.1%} of the documents that it saw."


def _clusters(clusters: ClusterFigures, steps: FunnelFigures) -> Iterator[str]:
    read = steps.kept[1] if steps.kept else 0
    for cluster in clusters.largest:
        if cluster.gone > 10 and cluster.gone > _GIANT * read:
            yield (
                f"A giant cluster: {cluster.gone:,} documents ({cluster.gone / max(read, 1):.1%} of those read) went by"
                f" {cluster.rule} in favour of {cluster.kept_id}. Look if they are really the same."
            )


def _repeats(rows: Sequence[FunnelRow]) -> Iterator[str]:
    for row in rows:
        if row.get("times", 0) > _MANY_TIMES:
            times = f"{row['times']:.1f} times"
            yield f"The mix repeats {row['source']} {times}: after about four passes repeats teach little."


def _splits(manifest: Manifest) -> Iterator[str]:
    for name, shards in manifest.splits.items():
        if not sum(shard.documents for shard in shards):
            more = ": there is nothing to evaluate on; give a larger val_fraction" if name == "val" else ""
            yield f"The split {name} is empty{more}."
