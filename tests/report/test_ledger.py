"""The ledger as a page."""

from __future__ import annotations

from gristmill.figures.ledger import Ledger, Share
from gristmill.report.ledger import ledger_page

LEDGER = Ledger(until=50, steps=48, documents=12, tokens=3000, sources=[Share("web", 12, 3000)],
                domains=[Share("<script>alert(1)</script>", 2, 1000), Share(None, 10, 2000)], domain_count=1,
                licences=[])  # fmt: skip


def test_the_page_has_the_sums_and_no_part_that_is_not_known() -> None:
    page = ledger_page("run", LEDGER)
    assert "3,000" in page and "not known" in page and 'id="domains"' in page and 'id="licences"' not in page


def test_a_name_that_is_markup_is_text() -> None:
    assert "<script>" not in ledger_page("<script>", LEDGER) and "&lt;script&gt;" in ledger_page("run", LEDGER)
