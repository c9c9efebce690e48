from __future__ import annotations

from gristmill.figures.clusters import Cluster, ClusterFigures
from gristmill.figures.funnel import sum_up
from gristmill.figures.warnings import store_warnings
from gristmill.store.manifest import Manifest


def row(stage: str, documents: int, **more: object) -> dict[str, object]:
    return {"stage": stage, "source": "web", "documents": documents, "bytes": 0, "tokens": 0, **more}


def warned(rows: list[dict[str, object]], clusters: ClusterFigures | None = None) -> list[str]:
    manifest = Manifest("uint16", 0, 10, {"name": "x"}, {"train": [], "val": []}, funnel=rows)
    return store_warnings(manifest, sum_up(rows), clusters)


def test_rules_that_never_fired_or_dropped_most_are_named_and_steps_that_are_no_rules_are_not() -> None:
    said = warned([row("read", 100), row("clean", 100), row("url", 100), row("length", 30, reasons={"too_few": 70})])
    assert any("rule url never fired" in one for one in said) and not any("clean" in one for one in said)
    assert any("length dropped 70.0%" in one for one in said)


def test_a_giant_cluster_and_a_source_that_comes_many_times_are_named() -> None:
    giant = ClusterFigures(
        90, [(64, 1)], [Cluster("near", "d1", 90, 0.9, "d2"), Cluster("near", "d3", 1, 0.9, "d4")], []
    )
    said = warned([row("read", 1000), row("mix", 1000, times=7.0)], giant)
    assert sum("giant cluster" in one for one in said) == 1 and any("in favour of d1" in one for one in said)
    assert any("repeats web 7.0 times" in one for one in said)
