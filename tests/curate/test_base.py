"""What a rule says of documents."""

from __future__ import annotations

import numpy as np

from gristmill.curate.base import KEEP, Verdict


def test_who_has_no_reason_to_go_is_kept() -> None:
    verdict = Verdict(("short", "long"), np.array([KEEP, 1, 0, KEEP], np.int16))
    assert verdict.kept.tolist() == [True, False, False, True]
    assert (verdict.values, verdict.details, verdict.kept_docs, verdict.documents) == (None, {}, None, None)
