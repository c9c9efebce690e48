"""What a machine delivers, as a table."""

from __future__ import annotations

import pytest

from gristmill.figures.bench import Asked, Delivered
from gristmill.show.bench import show_bench


def test_speeds_are_in_million_tokens_and_waits_in_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    show_bench("corpus", Asked(2048, 64, "pack"), [Delivered(0, 12_340_000.0, 94.14, 0.0315)])
    title, columns, row = capsys.readouterr().out.splitlines()
    assert title == "corpus: pack 2048 x 64"
    assert columns.split("  ")[0] == "threads" and row.split() == ["0", "12.3", "94.1", "31.5"]
