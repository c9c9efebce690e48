"""The viewer in a real browser: a phrase, its document, its step, and back; hostile text; no message in the console."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from browser import PATIENCE, Browser, browser
from view_site import Site


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def until(chromium: Browser, script: str) -> None:
    """Wait until an expression of JavaScript is true; while a page gives way to the next, it cannot be asked."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if chromium.value(script):
                return
        except AssertionError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"never true: {script}")


def clicked(chromium: Browser, link: str, title: str) -> None:
    """Click on what a selector finds, and wait for the page of that title."""
    assert chromium.value(f"document.querySelector('{link}') !== null"), link
    chromium.value(f"document.querySelector('{link}').click()")
    until(chromium, f"document.readyState == 'complete' && document.title.includes('{title}')")


def test_a_phrase_leads_to_its_document_to_its_step_and_back(chromium: Browser, plan_site: Site) -> None:
    chromium.open(plan_site.server.address)
    chromium.value("document.querySelector('form[action=search] input[name=q]').value = 'grinds exceedingly small'")
    clicked(chromium, "form[action=search] button", "grinds exceedingly small")
    until(chromium, "document.body.innerText.includes('1 place in 1 document;')")  # the page asks again by itself
    until(chromium, "document.querySelector('.found a') !== null")
    clicked(chromium, ".found a", "wanted")
    assert chromium.value("document.querySelector('#here').textContent").startswith(" gr")
    assert chromium.value("document.querySelector('#here').getBoundingClientRect().top") < 900
    clicked(chromium, 'main a[href^="step?"]', "Step")
    where = "[...document.querySelectorAll('.row:target a')].map(link => link.textContent).join('|')"
    assert "wanted" in chromium.value(where)
    chromium.value("[...document.querySelectorAll('.row:target a')].find(link => link.textContent == 'wanted').click()")
    until(chromium, "document.readyState == 'complete' && document.title == 'wanted'")
    assert not chromium.said


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_is_wider_than_the_screen_or_runs_what_a_document_says(
    chromium: Browser, run_site: Site, width: int, dark: bool
) -> None:
    for name in ("", "docs", "dropped?rule=length", "find?id=hostile", "find?id=rtl", "step?n=4", "search?q=script"):
        run_site.until_done(name)
        chromium.open(run_site.server.address + name, width=width, dark=dark)
        assert chromium.value("document.documentElement.scrollWidth") <= width, name
        assert chromium.value("document.title") != "ran" and chromium.value("document.images.length") == 0
        assert chromium.value("document.scripts.length") == 0 and not chromium.said, name
