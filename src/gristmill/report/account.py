"""What a report tells by a store's account: clusters of duplicates, and what each rule dropped."""

from __future__ import annotations

from collections.abc import Mapping

from gristmill.figures.clusters import ClusterFigures, Pair
from gristmill.figures.dropped import DroppedGroup, DroppedRow
from gristmill.figures.evidence import offending
from gristmill.figures.picture import StorePicture
from gristmill.report.charts import Point, columns
from gristmill.report.differences import side_by_side
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import Number, Section, details, facts, figure, paragraph, snippet, table

_GROUPS = 60  # reasons that are shown with examples
_TEXT_CHARS = 200_000  # of a text that is searched for what broke the rule


def duplicates_section(clusters: ClusterFigures | None) -> Section | None:
    """Sizes of clusters, the largest ones, and members of them side by side."""
    if clusters is None or not clusters.documents:
        return None
    points = [Point(f"{size}–{2 * size - 1}", count, f"{size:,} to {2 * size - 1:,} members: {count:,} clusters")
              for size, count in clusters.sizes]  # fmt: skip
    chart = figure(
        columns("Clusters by their members", points), "Clusters by their members, the one that stayed included"
    )
    rows = [(cluster.rule, cluster.kept_id, cluster.gone, Number(f"{cluster.similarity:.2f}"))
            for cluster in clusters.largest]  # fmt: skip
    largest = table(("rule", "the one that stayed", "went for it", "least similarity"), rows, "The largest clusters")
    known = facts({"documents that went": clusters.documents, "clusters": sum(count for _, count in clusters.sizes)})
    pairs = joined(_pair(pair) for pair in clusters.pairs)
    return "duplicates", "Duplicates", joined([known, chart, largest, pairs])


def _pair(pair: Pair) -> Html:
    if pair.kept_text is None or pair.gone_text is None:
        return paragraph(
            f"{pair.gone_id} went for {pair.kept_id}. Both texts can be seen here if the store is made by "
            "`gristmill prepare --keep-dropped`.", class_="faint",
        )  # fmt: skip
    shown = side_by_side(f"{pair.kept_id} stayed", pair.kept_text, f"{pair.gone_id} went", pair.gone_text)
    return joined([tag("h3", "Two members of a cluster"), shown])


def dropped_section(picture: StorePicture) -> Section | None:
    """For each rule and reason how many went, with examples whose offending part is marked."""
    found = picture.dropped
    if found is None or not found.documents:
        return None
    hint = "" if found.has_texts else paragraph(
        "Their texts were not kept: `gristmill prepare --keep-dropped` keeps them to be read here.", class_="faint"
    )  # fmt: skip
    shown = [_group(group, picture.near_limits) for group in found.groups[:_GROUPS]]
    more = len(found.groups) - _GROUPS
    rest = paragraph(f"{more:,} more reasons: see `gristmill dropped`.", class_="faint") if more > 0 else ""
    return "dropped", "What was dropped, and what just stayed", joined([hint, *shown, rest])


def _group(group: DroppedGroup, near_limits: Mapping[str, list[DroppedRow]]) -> Html:
    many = "document" if group.documents == 1 else "documents"
    by_source = ", ".join(f"{name} {count:,}" for name, count in list(group.sources.items())[:8])
    summary = joined([tag("b", group.rule), " ", group.reason, ": ", group.documents, f" {many} "])
    kept = near_limits.get(f"{group.rule}/{group.reason}", [])
    just = [tag("h3", "Just kept"), *map(_example, kept)] if kept else []
    return details(summary, paragraph(by_source, class_="faint"), *map(_example, group.examples), *just)


def _example(row: DroppedRow) -> Html:
    value, detail = row.get("value"), row.get("detail")
    said = ", ".join([*([f"measured {value:.4g}"] if value is not None else []), *([detail[:200]] if detail else [])])
    name = row.get("id") or f"row {row.get('row')} of {row.get('path')}"
    head = tag("div", tag("span", name, class_="id"), " ", tag("span", said, class_="faint"))
    text = row.get("text")
    if not text:
        return head
    return joined([head, snippet(text, offending(row.get("reason", ""), detail, text[:_TEXT_CHARS]))])
