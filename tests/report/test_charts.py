from __future__ import annotations

import re

import pytest

from gristmill.report.charts import Point, bars, columns, lines, pie, short

POINTS = [Point("web", 3, "web: 3 documents"), Point("<b>", 1, "<b>: 1 document")]
CHARTS = {
    "bars": lambda: bars("A & B", [("", POINTS)]),
    "two series": lambda: bars("A & B", [("now", POINTS), ("<i>", POINTS)]),
    "columns": lambda: columns("A & B", POINTS),
    "pie": lambda: pie("A & B", POINTS),
    "lines": lambda: lines("A & B", [("web", [(0, 1, "web: 3 documents"), (10, 2, "<b>: 1 document")])]),
    "areas": lambda: lines("A & B", [(n, [(1, 0.5, "web: 3 documents"), (2, 0.5, "<b>: 1 document")]) for n in "ab"],
                           stacked=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_an_svg_of_shapes_and_texts_that_says_its_numbers(name: str) -> None:
    drawn = CHARTS[name]()
    assert drawn.startswith("<svg") and 'aria-label="A &amp; B"' in drawn
    assert "<title>web: 3 documents</title>" in drawn and "<title>&lt;b&gt;: 1 document</title>" in drawn
    for never in ("<script", "<style", "style=", "<!--", "id=", "http", "<desc", "<b>", "<i>"):
        assert never not in drawn.replace('class="key', ""), never


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_the_same_each_time(name: str) -> None:
    assert CHARTS[name]() == CHARTS[name]()


def test_bars_are_as_long_as_their_values_and_stand_in_their_order() -> None:
    drawn = bars("x", [("", [Point("first", 10, "first"), Point("second", 5, "second")])])
    found = {
        name: (float(y), float(width))
        for y, width, name in re.findall(
            r'<rect[^>]*? y="([\d.]+)"[^>]*? width="([\d.]+)"[^>]*?></rect><title>(\w+)</title>', _titles_last(drawn)
        )
    }
    assert (
        found["first"][1] == pytest.approx(2 * found["second"][1], rel=0.01) and found["first"][0] < found["second"][0]
    )


def _titles_last(drawn: str) -> str:
    """Titles after their shapes."""
    return re.sub(r"(<title>\w+</title>)(<rect[^>]*></rect>)", r"\2\1", drawn)


def test_long_names_are_cut_on_the_axis() -> None:
    assert "a" * 21 + "…" in bars("x", [("", [Point("a" * 100, 1, "")])])


def test_numbers_of_axes_are_short() -> None:
    assert [short(number) for number in (0, 12, 1200, 3_400_000, 5e9)] == ["0", "12", "1.2 k", "3.4 M", "5 G"]


def test_a_pie_of_one_slice_is_coloured_and_named_like_any_other() -> None:
    drawn = pie("x", POINTS[:1])
    assert drawn.startswith("<svg") and 'class="chart many pie"' in drawn and 'class="key color-0"></i>web' in drawn
