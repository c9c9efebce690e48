"""A look before the long run: what a recipe would do, judged on a sample of its documents. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.curate.base import Rule
from gristmill.curate.clean import clean
from gristmill.curate.documents import Documents, Mask
from gristmill.recipe import Recipe
from gristmill.sources.base import Mishaps
from gristmill.sources.units import Unit, read_unit
from gristmill.stages.curate import Curation, Ledger, curate, start_documents

if TYPE_CHECKING:
    from gristmill.tokenize.tokenizer import Tokenizer

# A sample comes from the beginnings of at most this many units, spread evenly over the input.
_SAMPLED_UNITS = 16


@dataclass(frozen=True)
class RulePreview:
    """Documents of the sample that a rule would drop: by itself, as the only one, and in the recipe's order."""

    rule: str
    alone: int
    only: int
    in_order: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class Preview:
    """What the sample says; shares and speeds are estimates for the whole, which dedup then makes smaller."""

    documents: int
    kept: int
    bytes_read: int
    bytes_kept: int
    tokens: int
    seconds: float
    rules: list[RulePreview]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "rules": [vars(rule) for rule in self.rules]}


def preview(recipe: Recipe, curation: Curation, units: Sequence[Unit], tokenizer: Tokenizer, count: int) -> Preview:
    """Run the recipe's rules on about `count` documents: each by itself, and all in order."""
    batches = list(sample(recipe, units, count))
    _warm(batches, curation, tokenizer)
    began = time.perf_counter()
    ledger = Ledger()
    kept = []
    for documents in batches:
        ledger.read(documents)
        kept.append(curate(documents, curation, ledger))
    tokens = sum(len(tokenizer.encode_batch(documents.batch.column("text"))[0]) for documents in kept)
    seconds = time.perf_counter() - began
    facts = ledger.facts
    dropped = {rule.name: _dropped_alone(rule, batches, recipe) for rule in curation.rules}
    return Preview(
        documents=sum(map(len, batches)),
        kept=sum(map(len, kept)),
        bytes_read=sum(_size(documents) for documents in batches),
        bytes_kept=sum(_size(documents) for documents in kept),
        tokens=tokens + sum(map(len, kept)),
        seconds=seconds,
        rules=[_rule(name, dropped, facts["reasons"].get(name, {})) for name in dropped],
    )


def sample(recipe: Recipe, units: Sequence[Unit], count: int) -> Iterator[Documents]:
    """The first documents of units that lie evenly over the input, about `count` in all; the same ones every time."""
    layouts = {source.name: source.layout for source in recipe.sources}
    chosen = [units[len(units) * i // _SAMPLED_UNITS] for i in range(_SAMPLED_UNITS)]
    chosen = list({id(unit): unit for unit in chosen}.values())
    share = -(-count // len(chosen))
    for unit in chosen:
        left = share
        for batch in read_unit(unit, layouts[unit.source], Mishaps("skip")):
            yield start_documents(batch.slice(0, left), 0)
            left -= min(left, len(batch))
            if not left:
                break


def _warm(batches: Sequence[Documents], curation: Curation, tokenizer: Tokenizer) -> None:
    """Compile and load everything, so that the time of the sample is that of the work."""
    if batches:
        first = batches[0].take(np.arange(min(len(batches[0]), 8)))
        tokenizer.encode_batch(curate(first, curation, Ledger()).batch.column("text"))


def _dropped_alone(rule: Rule, batches: Sequence[Documents], recipe: Recipe) -> Mask:
    """Which documents of the sample, cleaned, the rule would drop if it were the only one."""
    cleaned = (clean(documents, recipe.clean).documents if recipe.clean else documents for documents in batches)
    return np.concatenate([~rule.judge(documents).kept for documents in cleaned])


def _rule(name: str, dropped: dict[str, Mask], reasons: dict[str, int]) -> RulePreview:
    others = [mask for other, mask in dropped.items() if other != name]
    only = dropped[name] & ~np.any(others, axis=0) if others else dropped[name]
    return RulePreview(name, int(dropped[name].sum()), int(only.sum()), sum(reasons.values()), dict(reasons))


def _size(documents: Documents) -> int:
    return int(documents.offsets[-1] - documents.offsets[0])


def forecast(recipe: Recipe, curation: Curation, units: Sequence[Unit], seen: Preview, workers: int) -> dict[str, Any]:
    """The plan of a run in figures: inputs by source, steps, and what the sample leads to expect of the whole."""
    size = sum(unit.size for unit in units)
    share = seen.bytes_kept / seen.bytes_read if seen.bytes_read else 0.0
    ratio = seen.tokens / seen.bytes_kept if seen.bytes_kept else 0.0
    tokens = int(size * share * ratio)
    held_out = int(tokens * recipe.store.val_fraction)
    return {
        "out": recipe.out,
        "sources": [_source_facts(source.name, units) for source in recipe.sources],
        "steps": [*curation.steps[0 if recipe.clean else 1 :],
                  *(f"dedup: {rule.name}" for rule in recipe.dedup), f"tokenize: {recipe.tokenizer}"],
        "workers": workers,
        "estimate": {
            "tokens": tokens,
            "train_tokens": tokens - held_out,
            "val_tokens": held_out,
            "shards": -(-tokens // recipe.store.tokens_per_shard),
            "seconds": round(seen.seconds * size / seen.bytes_read / workers, 1) if seen.bytes_read else 0.0,
        },
        "sample": seen.to_dict(),
    }  # fmt: skip


def _source_facts(name: str, units: Sequence[Unit]) -> dict[str, Any]:
    own = [unit for unit in units if unit.source == name]
    files = {part.file.path for unit in own for part in unit.parts}
    return {"source": name, "files": len(files), "bytes": sum(unit.size for unit in own), "units": len(own)}
