"""What the pages show, of a store, a plan and a run: read as text, every link of them followed."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.testing import tiny_store
from gristmill.view.subject import open_subject
from view_site import Page, Site, served

PHRASE = "grinds exceedingly small"


def text_of(page: Page) -> str:
    """What a reader sees, without markup."""
    assert page.status == 200, page.text[-400:]
    main = page.text.partition("<main>")[2]
    return html.unescape(re.sub(r"<[^>]*>", "", main))


def links(page: Page, name: str = "") -> list[str]:
    """The addresses of links to a page."""
    return [html.unescape(found) for found in re.findall(rf'<a href="({name}\?[^"]*)"', page.text)]


def followed(site: Site, address: str) -> Page:
    return site.get(address.partition("#")[0])


def test_the_overview_of_a_store_has_its_figures_and_its_funnel(store_site: Site, corpus: Path) -> None:
    shown, store = text_of(store_site.get()), gm.open(corpus)
    assert f"{store.num_tokens:,}" in shown and "gpt2" in shown and "length" in shown and "too_few_chars" in shown
    assert "web" in shown and "code" in shown and "val" in shown


@pytest.mark.parametrize("site", ["store_site", "plan_site", "run_site"])
def test_no_link_of_any_page_is_dead(request: pytest.FixtureRequest, site: str) -> None:
    served: Site = request.getfixturevalue(site)
    waiting, seen = {"", "docs", "search", "dropped"}, set[str]()
    while waiting and len(seen) < 60:
        name = sorted(waiting)[0]
        waiting.discard(name)
        seen.add(name)
        page = served.until_done(name)
        assert page.status in (200, 303), name
        found = {address.partition("#")[0] for address in links(page, r"\w+")}
        kinds = {re.sub(r"\d+", "0", address) for address in seen}
        waiting |= {each for each in found if re.sub(r"\d+", "0", each) not in kinds}


def test_documents_are_listed_in_pages_of_one_source_too(store_site: Site, corpus: Path) -> None:
    store = gm.open(corpus)
    page, seen = store_site.get("docs"), list[str]()
    while True:
        seen += re.findall(r"n=(\d+)\"", " ".join(f'{each}"' for each in links(page, "doc")))
        onward = [
            each for each in links(page, "docs") if "first=" in each and int(each.split("first=")[1].split("&")[0]) > 0
        ]
        onward = [each for each in onward if each.split("first=")[1].split("&")[0] not in seen]
        if not onward:
            break
        page = store_site.get(onward[-1])
    assert list(map(int, seen)) == list(range(len(store)))
    code = [document.id for document in store if document.source == "code"]
    listed = re.findall(r"code/\d+", text_of(store_site.get("docs?source=code")))
    assert listed == code[:50] and "web/" not in text_of(store_site.get("docs?source=code"))


def test_a_document_shows_its_text_tokens_way_and_fields(store_site: Site, corpus: Path) -> None:
    store = gm.open(corpus)
    (number,) = store.locate(["web/7"])["web/7"]
    page = store_site.get(f"doc?n={number}")
    shown = text_of(page)
    assert store[number].text in shown.replace("↵", "") and "https://example.org/web/7" in shown
    assert "✓ length" in shown and "dropped by it" in shown
    ids = [int(id) for id in re.findall(r'title="id (\d+), token', page.text)]
    assert ids == store[number].tokens.tolist()


def test_tokens_that_are_no_whole_character_are_shown_together(store_site: Site, corpus: Path) -> None:
    store = gm.open(corpus)
    (number,) = store.locate(["rtl"])["rtl"]
    page = store_site.get(f"doc?n={number}")
    assert store[number].text in text_of(page)
    found = re.findall(r'title="ids? ([\d, ]+), token', page.text)
    assert [int(id) for ids in found for id in ids.split(", ")] == store[number].tokens.tolist()


def test_a_long_document_is_shown_in_parts(store_site: Site, corpus: Path) -> None:
    store = gm.open(corpus)
    (number,) = store.locate(["hostile"])["hostile"]
    page = store_site.get(f"doc?n={number}")
    assert len(page.text) < 1_000_000 and "Part 1 of" in text_of(page)
    last = store_site.get([each for each in links(page, "doc") if "part=" in each][-1])
    assert "■" in text_of(last)
    assert f"token {len(store[number].tokens) - 1:,}" in last.text
    beyond = store_site.get(f"doc?n={number}&part=999999")
    assert text_of(beyond) == text_of(last)


def test_markup_in_documents_is_text(store_site: Site, corpus: Path) -> None:
    (number,) = gm.open(corpus).locate(["hostile"])["hostile"]
    for name in (f"doc?n={number}", "search?q=%3Cscript%3E", "find?id=%3Cscript%3E", "field?field=url&value=%3Cb%3E"):
        page = store_site.until_done(name)
        assert "<script" not in page.text and "<img" not in page.text and "<b>" not in page.text


def test_an_id_leads_to_its_document_or_to_why_there_is_none(store_site: Site) -> None:
    found = store_site.get("find?id=wanted")
    assert found.status == 303 and found.headers["location"].startswith(f"/{store_site.server.token}/doc?store=")
    gone = text_of(store_site.get("find?id=short/2"))
    assert "This document was dropped" in store_site.get("find?id=short/2").text
    assert "too_few_chars" in gone and "too short 2" in gone
    assert store_site.get("find?id=nobody").status == 404


def test_a_phrase_is_found_with_what_stands_around_it(store_site: Site, corpus: Path) -> None:
    page = store_site.until_done("search?q=grinds+exceedingly+small")
    shown = text_of(page)
    assert "1 place in 1 document;" in shown and "It grinds exceedingly small, they say." in shown
    (address,) = [each for each in links(page, "doc") if "at=" in each]
    assert address.endswith("#here")
    there = followed(store_site, address)
    assert re.search(r'id="here">[^<]*gr', there.text) and "wanted" in there.text


def test_a_phrase_that_is_not_there_is_said_to_be_in_no_place(store_site: Site) -> None:
    assert "0 places in 0 documents" in text_of(store_site.until_done("search?q=not+to+be+found"))


def test_all_places_are_counted_and_some_shown(store_site: Site, corpus: Path) -> None:
    expected = sum(document.text.count("mill") for document in gm.open(corpus))
    shown = text_of(store_site.until_done("search?q=mill"))
    assert f"{expected:,} places" in shown and f"The first 50 of {expected:,} are shown." in shown


def test_documents_are_found_by_a_field(store_site: Site) -> None:
    page = store_site.until_done("field?field=url&value=https%3A%2F%2Fexample.org%2Fweb%2F9")
    assert "1 document;" in text_of(page) and "web/9" in text_of(page)


def test_dropped_documents_are_shown_by_rule_with_their_texts(store_site: Site) -> None:
    counts = store_site.get("dropped")
    (address,) = [each for each in links(counts, "dropped") if "too_few_chars" in each]
    shown = text_of(store_site.get(address))
    assert all(f"too short {i}" in shown for i in range(5)) and "length: too_few_chars" in shown
    assert "None here." in text_of(store_site.get("dropped?rule=none"))


def test_a_store_has_no_steps(store_site: Site) -> None:
    assert store_site.get("step?n=0").status == 404


def test_a_step_shows_the_documents_of_its_rows(plan_site: Site, plan: Path) -> None:
    opened = gm.load_plan(plan)
    traced = opened.trace(3)
    first, second = (text_of(plan_site.get(f"step?n=3&row={row}")) for row in (0, 16))
    for row in traced:
        assert row.doc_id in (first if row.row < 16 else second)
        assert f"tokens {row.start:,} to {row.end - 1:,}" in (first if row.row < 16 else second)
    batch = gm.Loader(opened, threads=0).batch(3)
    store = opened.sources[0].store
    for row in range(16):
        assert store.decode(batch["input_ids"][row])[:40] in first.replace("■", "").replace("↵", "")


def test_a_row_shows_its_mask(plan_site: Site, plan: Path) -> None:
    opened = gm.load_plan(plan)
    mask = gm.Loader(opened, threads=0, keys="loss_mask").batch(3)["loss_mask"]
    row = int(np.argmin(mask.sum(axis=1)))
    page = plan_site.get(f"row?n=3&row={row}")
    shown = re.findall(r'class="d\d masked"', page.text)
    assert (len(shown) > 0) == bool((~mask[row]).any())


def test_from_a_document_to_its_steps_and_back(plan_site: Site, plan: Path) -> None:
    found = plan_site.get("find?id=wanted").headers["location"]
    document = plan_site.ask(found)
    expected = {(seen.step, seen.row) for seen in gm.load_plan(plan).find("wanted")}
    steps = [each for each in links(document, "step") if "row=" in each]
    assert {tuple(map(int, re.findall(r"n=(\d+)&row=(\d+)#row-\2", each)[0])) for each in steps} == expected
    step = followed(plan_site, steps[0])
    back = [
        each for each in links(step, "doc") if ">wanted<" in step.text and each.split("&at=")[0] in html.unescape(found)
    ]
    assert back and "wanted" in followed(plan_site, back[0]).text


def test_skipped_steps_and_those_beyond_the_end_are_said(plan_site: Site, plan: Path) -> None:
    assert "The plan skips step 2." in text_of(plan_site.get("step?n=2"))
    assert plan_site.get(f"step?n={gm.load_plan(plan).total_steps}").status == 404
    assert plan_site.get("row?n=2&row=0").status == 404 and plan_site.get("row?n=3&row=99").status == 404


def test_a_run_shows_its_losses_and_leads_to_the_highest(run_site: Site) -> None:
    page = run_site.get()
    assert "6 steps are recorded" in text_of(page) and "<polyline" in page.text
    highest = next(each for each in links(page, "step") if each.startswith("step?n="))
    assert highest == "step?n=4"  # the fourth that was served: the plan skips one
    step = run_site.get(highest)
    assert "loss 11.5000" in step.text and "loss 11.0000" in text_of(step)
    assert re.search(r'class="loss l0">(<bdi[^>]*>)?loss 11\.0000', step.text)
    assert "this step is not in the record" in run_site.get("step?n=7").text


def test_what_is_none_of_them_is_refused(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no plan"):
        open_subject(str(tmp_path / "x.json"))
    with pytest.raises(ConfigError, match="does not exist"):
        open_subject(str(tmp_path / "none"))
    assert list(open_subject(str(corpus / "manifest.json")).stores) == ["train", "val"]
    assert list(open_subject(str(corpus / "val")).stores) == ["val"]


def test_files_of_others_are_shown_as_far_as_they_tell(tmp_path: Path) -> None:
    tiny_store(tmp_path, shards=1)
    (tmp_path / "part-0.bin").rename(tmp_path / "t.bin")
    with served(tmp_path / "t.bin") as site:
        shown = text_of(site.get())
        assert "not known" in shown and "foreign" in shown
        assert site.get("search?q=a").status == 404 and site.get("docs").status == 404


def test_a_folder_with_a_plan_and_no_record_is_that_plan(plan: Path, tmp_path: Path) -> None:
    gm.load_plan(plan).save(tmp_path / "plan.json")
    subject = open_subject(str(tmp_path))
    assert subject.plan is not None and subject.run is None
