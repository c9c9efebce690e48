from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.figures import usage
from gristmill.figures.usage import pieces, usage_figures
from gristmill.testing import tiny_store


def test_all_tokens_of_a_small_store_are_counted(tmp_path: Path) -> None:
    found = usage_figures([tiny_store(tmp_path, [[1, 2, 2], [2]], shards=1)], vocab_size=300)
    assert (found.tokens, found.read, found.sampled, found.unused) == (6, 6, False, 297)
    assert [(token.id, token.count) for token in found.most] == [(2, 3), (256, 2), (1, 1)]


def test_a_large_store_is_read_in_even_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_PIECES", 2)
    monkeypatch.setattr(usage, "pieces", lambda tokens, count: pieces(tokens, count, 10))
    found = usage_figures([tiny_store(tmp_path, [[1] * 99, [2] * 99], shards=1)], vocab_size=300)
    assert found.sampled and found.read == 20 and {token.id for token in found.most} >= {1, 2}
    assert pieces(100, 3, 10) == [(0, 10), (45, 55), (90, 100)] and pieces(25, 3, 10) == [(0, 10), (10, 20), (20, 25)]
