from __future__ import annotations

import pytest

from gristmill.tokenize import memory
from gristmill.tokenize.memory import BLIND_BYTES, GROWTH, LOOK_EVERY, Budget


def test_growth_past_the_bound_ends_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(started_with=1000)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 1001 + GROWTH)
    assert not budget.spend(LOOK_EVERY - 1)
    assert budget.spend(1)


def test_a_process_that_does_not_grow_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(started_with=1000)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 1000 + GROWTH)
    assert not any(budget.spend(LOOK_EVERY) for _ in range(100))


def test_where_memory_cannot_be_read_bytes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: None)
    budget = Budget(started_with=None)
    assert not budget.spend(BLIND_BYTES - LOOK_EVERY)
    assert budget.spend(LOOK_EVERY)
