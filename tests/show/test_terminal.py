"""Lines, tables, percentages and JSON that cannot be broken by what they show."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from gristmill.show.terminal import percent, print_json, table


@dataclass(frozen=True)
class Figures:
    name: str
    share: float


def test_a_percentage_is_never_rounded_to_all_or_nothing() -> None:
    shown = [percent(*pair) for pair in ((1, 10**6), (10**6 - 1, 10**6), (0, 5), (5, 5), (1, 3), (3, 0), (250, 100))]
    assert shown == ["0.1%", "99.9%", "0%", "100%", "33.3%", "", "250.0%"]


def test_a_table_aligns_numbers_and_cannot_be_broken_by_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    table("", ("name", "count"), [("a\nb\x1b", 1), ("字", 1234567)])
    assert capsys.readouterr().out == "name            count\na\\x0ab\\x1b          1\n字          1,234,567\n"


def test_what_json_has_no_number_for_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), (1.5,)]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": None, "b": [None, [1.5]]}


def test_figures_are_printed_by_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"rows": [Figures("a", 0.5)]})
    assert json.loads(capsys.readouterr().out) == {"rows": [{"name": "a", "share": 0.5}]}
