"""Whether both sides decide alike: the same documents dropped, for the same reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Reasons = Sequence[str | None]


def agreement(ids: Sequence[str], ours: Reasons, theirs: Reasons) -> dict[str, Any]:
    """Equal decisions of all documents, equal reasons of those that the other side drops, and the ids that differ."""
    rows = list(zip(ids, ours, theirs, strict=True))
    dropped = [(own, other) for _, own, other in rows if other is not None]
    differing = [{"id": name, "gristmill": own, "datatrove": other} for name, own, other in rows if own != other]
    return {
        "documents": len(rows),
        "dropped_by_datatrove": len(dropped),
        "equal_decisions": sum((own is None) == (other is None) for _, own, other in rows) / len(rows),
        "equal_reasons": sum(own == other for own, other in dropped) / len(dropped) if dropped else 1.0,
        "differing": differing,
    }
