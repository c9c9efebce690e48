"""Reports in a real browser: they show the numbers, nothing in them runs, and no width breaks them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm
from browser import Browser
from gristmill.report.writing import report
from report_corpus import Made

OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="session")
def pages(made: Made, stricter: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of page."""
    folder = tmp_path_factory.mktemp("pages")
    for name, steps, from_step in (("old", 40, 10), ("new", 60, 20)):
        phases = [gm.Phase(from_step, weights={"web": 0.3, "more": 0.7})]
        sources = {"web": gm.open(made.root / "train"), "more": gm.open(stricter / "train")}
        plan = gm.Plan(sources, seq_len=64, batch_size=4, weights={"web": 1, "more": 0}, steps=steps, seed=1,
                       options=gm.PlanOptions(phases=phases))  # fmt: skip
        plan.save(folder / f"{name}.json")
    kinds = {"store": (made.root, None), "stores": (stricter, made.root), "plan": (folder / "new.json", None),
             "plans": (folder / "new.json", folder / "old.json")}  # fmt: skip
    for name, (path, other) in kinds.items():
        (folder / f"{name}.html").write_text(report(path, other)[0])
    return {name: folder / f"{name}.html" for name in kinds}


@pytest.mark.parametrize("name", ["store", "stores", "plan", "plans"])
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_a_page_is_as_wide_as_its_screen_and_says_nothing_in_the_console(
    chromium: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    chromium.open(pages[name].as_uri(), width=width, dark=dark)
    chromium.value(OPEN_ALL)
    assert chromium.value(WIDTH) == width
    assert chromium.said == []
    light = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(255, 255, 255)") is not dark
    assert chromium.value("document.querySelectorAll('svg.chart').length") >= 1


def test_charts_hold_the_numbers_of_the_funnel(chromium: Browser, made: Made) -> None:
    chromium.open(made.page.as_uri())
    titles = chromium.value("[...document.querySelectorAll('#funnel svg title')].map(one => one.textContent)")
    counted = {title.split("\n")[0].split(" (")[0]: title for title in titles}
    rows = json.loads((made.root / "funnel.json").read_text())
    rows = rows if isinstance(rows, list) else rows["funnel"]
    for stage in ("read", "length", "exact", "near"):
        own = [row for row in rows if row["stage"] == stage]
        for key, unit in (("documents", "documents"), ("bytes", "bytes of text"), ("tokens", "tokens")):
            shown = counted[f"{stage}: {sum(row[key] for row in own):,} {unit}"]
            for row in own:
                assert f"{row['source']}: {row[key]:,}" in shown


def test_a_hostile_document_does_not_run_and_is_read_as_text(chromium: Browser, made: Made) -> None:
    chromium.open(made.page.as_uri(), width=390)
    chromium.value(OPEN_ALL)
    assert chromium.value("document.title").startswith("Report of")
    assert chromium.value("document.querySelectorAll('script, img, iframe, object, [onerror]').length") == 0
    assert "<script>document.title='hacked'</script>" in chromium.value("document.body.innerText")
    widest = "Math.max(...[...document.querySelectorAll('pre')].map(one => one.scrollWidth - one.clientWidth))"
    assert chromium.value(widest) == 0


def test_a_page_that_is_given_a_script_by_a_document_would_refuse_it(
    chromium: Browser, made: Made, tmp_path: Path
) -> None:
    """Should anything ever get through the escaping, the page's policy still holds."""
    (tmp_path / "broken.html").write_text(
        made.text.replace("<main>", "<main><script>document.title = 'hacked'</script>")
    )
    chromium.open((tmp_path / "broken.html").as_uri())
    assert chromium.value("document.title").startswith("Report of") and chromium.said
