"""The trivial engine: what is asked of it happens here and now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gristmill.engine.inline import InlineEngine


@pytest.fixture
def engine(tmp_path: Path) -> InlineEngine:
    return InlineEngine(1 << 28, tmp_path / "scratch")


def test_parts_are_done_in_this_process_one_after_the_other(engine: InlineEngine) -> None:
    seen: list[Any] = []
    results = engine.map(lambda part: (seen.append(part), os.getpid())[1], [1, 2, 3])
    assert next(results) == os.getpid() and seen == [1]
    assert len(list(results)) == 2 and seen == [1, 2, 3]


def test_getting_ready_is_nothing(engine: InlineEngine) -> None:
    engine.start(lambda: pytest.fail("it would only take time"))
    engine.close()
