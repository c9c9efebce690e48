"""What a run would make, in figures: inputs by source, steps, and what a sample leads to expect of the whole.

Rules are tried on the sample, each by itself and all in order; nothing is written. Every figure has a range in which
the real one should lie. Duplicates are not looked for, so both are before dedup.
"""

from __future__ import annotations

import math
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
from gristmill.recipe import MixOptions, Recipe
from gristmill.sources.units import Unit
from gristmill.stages.sampling import Amount, SourceSample
from gristmill.stages.split import FACTOR
from gristmill.tokenize.tokenizer import Tokenizer

# Filling shards is tried on at most this many documents; where a shard holds far more, it is as good as full.
_TRIED_DOCUMENTS = 100_000
# Beside what is timed on the sample a run reads, writes and reads again, compares, and writes shards; what is loaded
# here each worker loads too, and they wait for each other. How much of the time of sample and of loading that may be,
# at the least and at the most, and the seconds for what is not timed at all (DuckDB, closing files).
_WORK, _START, _OTHER = (1.0, 6.0), (1.0, 3.0), (0.3, 3.0)


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
    named = zip(curation.names, curation.rules, strict=True)
    dropped = {name: _dropped_alone(rule, batches, recipe) for name, rule in named}
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


class SourceFigures(TypedDict):
    """The inputs of a source, and what its sample says that they hold."""

    source: str
    files: int
    bytes: int
    units: int
    documents: int
    text_bytes: int


class RunForecast(TypedDict):
    """All that a dry run tells; `range` has the least and the most of each figure in `estimate`."""

    out: str
    sources: list[SourceFigures]
    steps: list[str]
    workers: int
    estimate: dict[str, float]
    range: dict[str, list[float]]
    sample: PreviewFigures


@dataclass(frozen=True)
class Expected:
    """Documents and tokens of a source that are left, and the lengths of those in the sample."""

    documents: Amount
    tokens: Amount
    lengths: Ints


def expect(sample: SourceSample, judged: Judged) -> Expected:
    """What a source leads to expect, by what the rules kept of its sample."""
    kept = judged.tokens > 0
    count, share = len(kept), float(kept.mean()) if len(kept) else 0.0
    unseen = math.sqrt(max(1 - count / sample.documents.value, 0.0)) if sample.documents.value else 0.0
    odds = 2 * math.sqrt((1 - share) / (share * count)) * unseen if share else 0.0
    size, found = int(judged.sizes.sum()), int(judged.tokens.sum())
    ratio = found / size if size else 0.0
    errors = judged.tokens - ratio * judged.sizes
    spread = 2 * float(np.sqrt((errors**2).sum())) / found * unseen if found else 0.0
    return Expected(sample.documents.times(share, odds), sample.text_bytes.times(ratio, spread), judged.tokens[kept])


def forecast(
    recipe: Recipe, curation: Curation, units: Sequence[Unit], samples: Sequence[SourceSample], seen: Preview,
    workers: int, start_seconds: float,
) -> RunForecast:  # fmt: skip
    """What a run would make, by what a sample of its inputs leads to expect."""
    expected = {sample.name: expect(sample, seen.sources[sample.name]) for sample in samples}
    documents, tokens = _mixed(recipe.mix, expected) if recipe.mix else _added(list(expected.values()))
    lengths = np.concatenate([np.zeros(0, np.int64), *(source.lengths for source in expected.values())])
    figures = {"documents": documents, "tokens": tokens, **_splits(tokens, documents.value, recipe, lengths)}
    text_bytes = sum(sample.text_bytes.value for sample in samples)
    low, high = _seconds(seen, text_bytes, workers, start_seconds + seen.warm_seconds)
    estimate = {name: round(figure.value) for name, figure in figures.items()}
    ranges = {name: (figure.value - figure.margin, figure.value + figure.margin) for name, figure in figures.items()}
    return {
        "out": recipe.out,
        "sources": [_source_facts(sample, units) for sample in samples],
        "steps": [*curation.steps[0 if recipe.clean else 1 :],
                  *(f"dedup: {rule.name}" for rule in recipe.dedup), f"tokenize: {recipe.tokenizer}"],
        "workers": workers,
        "estimate": {**estimate, "seconds": round(math.sqrt(low * high), 1)},
        "range": {**{name: [max(round(least), 0), round(most)] for name, (least, most) in ranges.items()},
                  "seconds": [round(low, 1), round(high, 1)]},
        "sample": seen.figures,
    }  # fmt: skip


def _added(expected: Sequence[Expected]) -> tuple[Amount, Amount]:
    documents = tokens = Amount(0)
    for source in expected:
        documents, tokens = documents.plus(source.documents), tokens.plus(source.tokens)
    return documents, tokens


def _mixed(mix: MixOptions, expected: dict[str, Expected]) -> tuple[Amount, Amount]:
    """A mix has its target, whatever there is; the other figure goes by the mean length of each source."""
    documents = tokens = Amount(0)
    for name, weight in mix.exact_weights.items():
        source, wanted = expected[name], float(weight) * mix.target
        mean = source.tokens.value / source.documents.value if source.documents.value else 0.0
        off = source.tokens.margin / source.tokens.value if source.tokens.value else 0.0
        in_tokens = mix.unit == "tokens"
        documents = documents.plus(Amount(wanted / mean if mean else 0, wanted / mean * off if mean else 0)
                                   if in_tokens else Amount(wanted))  # fmt: skip
        tokens = tokens.plus(Amount(wanted) if in_tokens else Amount(wanted * mean, wanted * mean * off))
    return documents, tokens


def _splits(tokens: Amount, documents: float, recipe: Recipe, lengths: Ints) -> dict[str, Amount]:
    """The tokens of train and val, and the shards of both: each split has shards of its own."""
    fraction = recipe.store.val_fraction
    val = tokens.times(fraction, min(_chance(fraction, documents, lengths), FACTOR - 1))
    train = Amount(tokens.value - val.value, math.hypot(tokens.margin, val.margin))
    room = _filled(lengths, recipe.store.tokens_per_shard)
    shards = Amount(0)
    for split in (train, val):
        low, middle, high = (max(math.ceil(count / room), count >= 1) for count in
                             (split.value - split.margin, split.value, split.value + split.margin))  # fmt: skip
        shards = shards.plus(Amount(middle, max(high - middle, middle - low)))
    return {"train_tokens": train, "val_tokens": val, "shards": shards}


def _chance(fraction: float, documents: float, lengths: Ints) -> float:
    """How far val may be off its share because documents fall into it by chance, as a share of it."""
    if not fraction or not documents or not len(lengths):
        return 0.0
    uneven = float((lengths.astype(np.float64) ** 2).mean()) / float(lengths.mean()) ** 2
    return 2 * math.sqrt((1 - fraction) / (fraction * documents) * uneven)


def _filled(lengths: Ints, limit: int) -> float:
    """The tokens that a shard holds when it is closed by the first document that does not fit."""
    total, mean = int(lengths.sum()), float(lengths.mean()) if len(lengths) else 0.0
    if not total or limit > mean * _TRIED_DOCUMENTS / 10:
        return float(limit)
    ends = np.cumsum(np.tile(lengths, _TRIED_DOCUMENTS // len(lengths) + 1))
    shards, at = 0, 0
    while at < len(ends):
        before = int(ends[at - 1]) if at else 0
        at = max(int(np.searchsorted(ends, before + limit, side="right")), at + 1)
        shards += 1
    return int(ends[-1]) / shards


def _seconds(seen: Preview, text_bytes: float, workers: int, start: float) -> tuple[float, float]:
    """The least and the most that a run should take, with loading what it needs, on a machine as busy as now."""
    size, seconds = seen.figures["bytes_read"], seen.figures["seconds"]
    work = seconds * text_bytes / size / workers if size else 0.0
    low, high = (a * work + b * start + c for a, b, c in zip(_WORK, _START, _OTHER, strict=True))
    return low, high


def _source_facts(sample: SourceSample, units: Sequence[Unit]) -> SourceFigures:
    own = [unit for unit in units if unit.source == sample.name]
    files = {part.file.path for unit in own for part in unit.parts}
    return {"source": sample.name, "files": len(files), "bytes": sum(unit.size for unit in own), "units": len(own),
            "documents": round(sample.documents.value), "text_bytes": round(sample.text_bytes.value)}  # fmt: skip
