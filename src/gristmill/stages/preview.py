"""A look before the long run: what a recipe would do, judged on a sample of its documents. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.curate.base import Rule
from gristmill.curate.chain import Curation
from gristmill.curate.clean import clean
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger
from gristmill.recipe import Recipe
from gristmill.stages.sampling import SourceSample
from gristmill.tokenize.tokenizer import Tokenizer


class RulePreview(TypedDict):
    """Documents of the sample that a rule would drop: by itself, as the only one, and in the recipe's order."""

    rule: str
    alone: int
    only: int
    in_order: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class Judged:
    """The sampled documents of a source: the bytes of their texts as read, and their tokens, 0 where a rule drops."""

    sizes: Ints
    tokens: Ints


class PreviewFigures(TypedDict):
    """What the sample says."""

    documents: int
    kept: int
    bytes_read: int
    bytes_kept: int
    tokens: int
    seconds: float
    rules: list[RulePreview]


@dataclass(frozen=True)
class Preview:
    """What the sample says in all and by source, and the seconds that loading for it took."""

    figures: PreviewFigures
    sources: dict[str, Judged]
    warm_seconds: float


def preview(recipe: Recipe, curation: Curation, samples: Sequence[SourceSample], tokenizer: Tokenizer) -> Preview:
    """Run the recipe's rules on the sample: each by itself, and all in order."""
    batches = [batch for sample in samples for batch in sample.sample]
    warmed = _warm(batches, curation, tokenizer)
    began = time.perf_counter()
    ledger, sources, kept_bytes = Ledger(), {}, 0
    for sample in samples:
        sources[sample.name], size = _judge(sample.sample, curation, tokenizer, ledger)
        kept_bytes += size
    seconds = time.perf_counter() - began
    dropped = {rule.name: _dropped_alone(rule, batches, recipe) for rule in curation.rules}
    figures: PreviewFigures = {
        "documents": sum(map(len, batches)),
        "kept": sum(int((judged.tokens > 0).sum()) for judged in sources.values()),
        "bytes_read": sum(int(judged.sizes.sum()) for judged in sources.values()),
        "bytes_kept": kept_bytes,
        "tokens": sum(int(judged.tokens.sum()) for judged in sources.values()),
        "seconds": seconds,
        "rules": [_rule(name, dropped, ledger.reasons.get(name, {})) for name in dropped],
    }
    return Preview(figures, sources, warmed)


def _judge(
    batches: Sequence[Documents], curation: Curation, tokenizer: Tokenizer, ledger: Ledger
) -> tuple[Judged, int]:
    """The documents of a source, and the bytes of those that stay."""
    sizes, tokens, kept_bytes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for documents in batches:
        kept = curation.curate(documents, ledger)
        _, offsets = tokenizer.encode_batch(kept.batch.column("text"))
        lengths = np.zeros(len(documents), np.int64)
        counted = np.diff(offsets)
        lengths[kept.batch.column("doc").to_numpy()] = counted + (counted > 0)
        sizes.append(np.diff(documents.offsets))
        tokens.append(lengths)
        kept_bytes += int(kept.offsets[-1] - kept.offsets[0])
    return Judged(np.concatenate(sizes), np.concatenate(tokens)), kept_bytes


def _warm(batches: Sequence[Documents], curation: Curation, tokenizer: Tokenizer) -> float:
    """Compile and load everything, so that the time of the sample is that of the work; the seconds that took."""
    began = time.perf_counter()
    if batches:
        first = batches[0].take(np.arange(min(len(batches[0]), 8)))
        tokenizer.encode_batch(curation.curate(first, Ledger()).batch.column("text"))
    return time.perf_counter() - began


def _dropped_alone(rule: Rule, batches: Sequence[Documents], recipe: Recipe) -> Mask:
    """Which documents of the sample, cleaned, the rule would drop if it were the only one."""
    cleaned = (clean(documents, recipe.clean).documents if recipe.clean else documents for documents in batches)
    return np.concatenate([np.zeros(0, bool), *(~rule.judge(documents).kept for documents in cleaned)])


def _rule(name: str, dropped: dict[str, Mask], reasons: dict[str, int]) -> RulePreview:
    others = [mask for other, mask in dropped.items() if other != name]
    only = dropped[name] & ~np.any(others, axis=0) if others else dropped[name]
    return {"rule": name, "alone": int(dropped[name].sum()), "only": int(only.sum()),
            "in_order": sum(reasons.values()), "reasons": dict(reasons)}  # fmt: skip
