"""Charts as SVG that stands in the page itself: drawn by pygal, coloured by the page's style, without a script.

What hovering says is an SVG `<title>`: browsers show it, screen readers say it, and no code runs for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

from gristmill.report.markup import Html, joined, tag, visible

if TYPE_CHECKING:
    from pygal.graph.graph import Graph

WIDTH = 360  # pixels: a chart is as wide as a phone, and stands beside others where there is room
_FONT = 11
_LABEL_CHARS = 22
_KEPT = ("class", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "width", "height", "transform",
         "viewBox", "points")  # fmt: skip
_LEFT_OUT = ("defs", "script", "style", "desc")


LinePoint = tuple[float, float, str]  # step, value, what hovering says


@dataclass(frozen=True)
class Point:
    """A value of a chart: `label` names it on its axis, `hover` says all of it."""

    label: str
    value: float
    hover: str


def short(number: float) -> str:
    """`950`, `1.2 k`, `3.4 M`: for axes."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def bars(title: str, series: Sequence[tuple[str, Sequence[Point]]], shown: Callable[[float], str] = short) -> Html:
    """Lying bars, from above in the order of the points; several series stand beside each other."""
    points = series[0][1]
    chart = _chart("HorizontalBar", 40 + len(points) * (10 + 14 * len(series)), shown, margin_right=24)
    chart.x_labels = [_label(point.label) for point in reversed(points)]
    for name, own in series:
        chart.add(name, [{"value": point.value, "label": point.hover} for point in reversed(own)])
    return _drawn(chart, title, [name for name, _ in series])


def columns(title: str, points: Sequence[Point], shown: Callable[[float], str] = short) -> Html:
    """Standing bars: a histogram."""
    chart = _chart("Bar", 220, shown)
    chart.x_labels = [point.label for point in points]
    chart.add("", [{"value": point.value, "label": point.hover} for point in points])
    return _drawn(chart, title, kind="columns")


def pie(title: str, points: Sequence[Point]) -> Html:
    """Shares of a whole; the legend names them."""
    chart = _chart("Pie", 240, short)
    for point in points:
        chart.add("", [{"value": point.value, "label": point.hover}])
    return _drawn(chart, title, [point.label for point in points], "pie")


def lines(
    title: str,
    series: Sequence[tuple[str, Sequence[LinePoint]]],
    shown: Callable[[float], str] = short,
    stacked: bool = False,
) -> Html:
    """Lines over steps: (step, value, hover) each; stacked ones are filled shares of 1 at the same steps."""
    kind = "StackedLine" if stacked else "XY"
    extent = {"range": (0, 1), "fill": True, "dots_size": 4} if stacked else {"dots_size": 1.5}
    chart = _chart(kind, 230, shown, margin_right=24, **extent)
    if stacked:
        chart.x_labels = [short(step) for step, _, _ in series[0][1]]
        chart.show_minor_x_labels = False
        chart.x_labels_major = chart.x_labels[:: max(1, len(chart.x_labels) // 4)]
    else:
        chart.x_value_formatter = short
    for _, own in series:
        values = [{"value": value if stacked else (step, value), "label": hover} for step, value, hover in own]
        chart.add("", values)
    return _drawn(chart, title, [name for name, _ in series], "areas" if stacked else "")


def _chart(kind: str, height: int, shown: Callable[[float], str], **more: Any) -> Graph:
    import pygal
    from pygal.style import Style

    style = Style(label_font_size=_FONT, major_label_font_size=_FONT)
    chart: Graph = getattr(pygal, kind)(
        js=[], css=[], style=style, width=WIDTH, height=height, margin=4, spacing=6,
        value_formatter=shown, show_legend=False, truncate_label=_LABEL_CHARS, max_scale=5, min_scale=2, **more,
    )  # fmt: skip
    return chart


def _label(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _LABEL_CHARS else text[: _LABEL_CHARS - 1] + "…"


def _drawn(chart: Graph, title: str, names: Sequence[str] = (), kind: str = "") -> Html:
    """The chart, over a legend of the page's own where it has several series; a pie always has one."""
    made, told = _cleaned(chart.render_tree()), len(names) > 1 or kind == "pie"
    made.set("class", f"chart {'many' if told else ''} {kind}".strip())
    made.set("role", "img")
    made.set("aria-label", visible(title))
    keys = [tag("li", tag("i", class_=f"key color-{number}"), name) for number, name in enumerate(names)]
    legend = tag("ul", *keys, class_="legend") if told else ""
    return joined([Html(Xml.tostring(made, encoding="unicode", method="html")), legend])


def _cleaned(element: Xml.Element) -> Xml.Element:
    """Only shapes, texts and classes stay; what pygal would show by script becomes a title."""
    kept = Xml.Element(element.tag, {name: element.attrib[name] for name in _KEPT if name in element.attrib})
    kept.text = element.text
    said = next((child.text for child in element if child.tag == "desc" and child.get("class") == "label"), None)
    if said:
        Xml.SubElement(kept, "title").text = visible(said)
    for child in element:
        if (
            isinstance(child.tag, str)
            and child.tag not in _LEFT_OUT
            and "tooltip-overlay" not in child.get("class", "")
        ):
            kept.append(_cleaned(child))
    return kept
