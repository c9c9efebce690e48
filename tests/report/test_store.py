from __future__ import annotations

import json
import re
from pathlib import Path

from gristmill.figures.picture import store_picture
from gristmill.report.store import store_page
from report_corpus import ENDLESS, Made


def test_the_page_is_whole_small_and_fetches_nothing(made: Made) -> None:
    assert made.text.startswith("<!doctype html>") and made.text.endswith("</html>\n")
    assert len(made.text.encode()) < 300_000 < len(ENDLESS)
    assert not re.search(r'(?:src|href)="(?!#|data:,)', made.text) and "url(" not in made.text
    assert " style=" not in made.text  # which the page's policy would refuse


def test_sections_tell_of_everything_that_the_store_has(made: Made) -> None:
    names = re.findall(r'<section id="(\w+)">', made.text)
    assert names == ["funnel", "mix", "lengths", "tokens", "fields", "duplicates", "dropped", "provenance"]


def test_every_reason_has_its_number_and_an_example(made: Made) -> None:
    for reason in ("too_few_chars", "too_many_chars", "duplicate", "near_duplicate"):
        assert re.search(rf"</b> {reason}: \d", made.text), reason
    assert "characters more" in made.text


def test_members_of_a_cluster_stand_side_by_side_with_their_difference_marked(made: Made) -> None:
    assert re.search(r"<ins>\s*changed\d</ins>", made.text)


def test_the_funnels_table_says_what_funnel_json_says(made: Made) -> None:
    rows = [row for row in json.loads((made.root / "manifest.json").read_text())["funnel"] if row["stage"] == "near"]
    assert f'<td class="n">{sum(row["tokens"] for row in rows):,}</td>' in made.text


def test_the_same_store_has_the_same_page(made: Made) -> None:
    assert store_page(store_picture(made.root)) == made.text


def test_a_store_without_an_account_has_a_report_too(made: Made, tmp_path: Path) -> None:
    import gristmill as gm

    gm.join([made.root], tmp_path / "joined")
    shown = store_page(store_picture(tmp_path / "joined"))
    assert '<section id="lengths">' in shown and '<section id="dropped">' not in shown
