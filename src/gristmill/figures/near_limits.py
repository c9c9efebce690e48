"""Documents that a rule just kept: a sample of the store is judged again by the same rule with tighter limits.

The account holds the figures of what went, not of what stayed: so what a slightly stricter rule drops is looked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from gristmill.core.errors import GristmillError
from gristmill.curate.base import Rule, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import step_names
from gristmill.curate.rules import make_rule
from gristmill.figures.dropped import DroppedRow
from gristmill.figures.texts import can_decode, decoded, records_of
from gristmill.store.manifest import Manifest
from gristmill.store.reader import Store

# Rules that hold figures against limits and need nothing but the text.
RULES = (
    "length",
    "language",
    "gopher_quality",
    "gopher_repetition",
    "fineweb",
    "code_ratio",
    "code_quality",
    "profanity",
)
_LEAST = ("line_punct_ratio",)
_TIGHTER = (0.03, 0.15)  # shares of a limit: the nearest are looked for first
_SAMPLE = 800
_MOST_TOKENS = 20_000
_EXAMPLES = 2


def near_limits(manifest: Manifest, stores: Sequence[Store], fired: Collection[str]) -> dict[str, list[DroppedRow]]:
    """Up to two documents of the store for each `rule/reason` by which they would go, were its limit
    3 or 15 % tighter. Rules that never `fired` are not asked."""
    known = {name: rule for name, rule in _rules(manifest).items() if rule["name"] in RULES and name in fired}
    rules = [(name, stricter) for name, rule in known.items() for share in _TIGHTER
             if (stricter := _stricter(rule, share))]  # fmt: skip
    documents = _sample(stores) if rules else None
    found: dict[str, list[DroppedRow]] = {}
    if documents:
        for name, stricter in rules:
            for row in _judged(name, stricter, documents):
                own = found.setdefault(f"{row['rule']}/{row['reason']}", [])
                if len(own) < _EXAMPLES and all(row["id"] != other["id"] for other in own):
                    own.append(row)
    return found


def _rules(manifest: Manifest) -> dict[str, Mapping[str, object]]:
    """The rules of a store's recipe by the names that its account has."""
    given = manifest.recipe.get("filters")
    rules = [rule for rule in (given if isinstance(given, list) else ())
             if isinstance(rule, Mapping) and isinstance(rule.get("options"), Mapping)]  # fmt: skip
    return dict(zip(step_names(str(rule["name"]) for rule in rules), rules, strict=True))


def tightened(options: Mapping[str, object], share: float) -> dict[str, object]:
    """Options of a rule with every limit tighter by a share of it."""
    return {name: _tighter(name, value, share) for name, value in options.items()}


def _tighter(name: str, value: object, share: float) -> object:
    least = name.startswith("min_") or name in _LEAST
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        return [[size, limit * (1 - share)] for size, limit in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return value
    if not least and not name.startswith("max_") and not name.endswith(("_frac", "_ratio")):
        return value
    moved = value * (1 + share if least else 1 - share)
    return moved if isinstance(value, float) else round(moved)


def _judged(name: str, stricter: Rule, documents: Documents) -> Iterator[DroppedRow]:
    verdict = stricter.judge(documents)
    for row in np.flatnonzero(~verdict.kept).tolist():
        found: DroppedRow = {"rule": name, "value": _value(verdict, row)}
        found["reason"] = verdict.reasons[int(verdict.codes[row])]
        for key in ("id", "source", "text"):
            found[key] = documents.batch.column(key)[row].as_py()
        yield found


def _value(verdict: Verdict, row: int) -> float | None:
    values = verdict.values
    return None if values is None or np.isnan(values[row]) else float(values[row])


def _stricter(rule: Mapping[str, object], share: float) -> Rule | None:
    """None where the tighter limits are no rule, or where it needs more than the text."""
    options = rule["options"]
    assert isinstance(options, Mapping)
    if options.get("variant") == "datatrove":
        return None
    try:
        return make_rule(str(rule["name"]), tightened(options, share))
    except GristmillError:
        return None


def _sample(stores: Sequence[Store]) -> Documents | None:
    """Documents that lie evenly over the stores, decoded; long ones, and stores without a tokenizer, are left out."""
    total, rows = sum(store.num_documents for store in stores), []
    for store in filter(can_decode, stores):
        count = min(store.num_documents, -(-_SAMPLE * store.num_documents // max(total, 1)))
        numbers = np.linspace(0, store.num_documents - 1, count).astype(np.int64)
        begins, ends = store.document_spans(numbers)
        short = ends - begins <= _MOST_TOKENS
        texts = decoded(store, begins[short], ends[short])
        rows += [{"id": record["id"], "source": record["source"], "text": text}
                 for record, text in zip(records_of(store, numbers[short]), texts, strict=True)]  # fmt: skip
    schema = pa.schema([("id", pa.string()), ("source", pa.string()), ("text", pa.large_string())])
    return Documents(pa.RecordBatch.from_pylist(rows, schema)) if rows else None
