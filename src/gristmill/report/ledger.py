"""The ledger of a run as a page."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.ledger import Ledger, Share
from gristmill.report.markup import Html
from gristmill.report.page import Section, page, paragraph, percent, sections, table, tiles


def ledger_page(title: str, ledger: Ledger) -> Html:
    """What a model has been trained on: the sums, and their parts by source, domain and licence."""
    body = [
        _part("sources", "Sources", "source", ledger.sources, ledger.tokens),
        _part("domains", f"Domains, the largest of {ledger.domain_count:,}", "domain", ledger.domains, ledger.tokens),
        _part("licences", "Licences", "licence", ledger.licences, ledger.tokens),
    ]
    top = tiles({"tokens": ledger.tokens, "documents": ledger.documents, "steps": ledger.steps})
    said = paragraph(
        "Tokens that were in the rows of served steps, EOS included and padding not; a token that was served twice "
        "counts twice. Skipped steps and excluded documents do not count."
    )
    return page(
        "What the model has been trained on",
        Html(top + said + sections(part for part in body if part is not None)),
        subtitle=f"{title}, before step {ledger.until:,}",
    )


def _part(name: str, heading: str, column: str, shares: Sequence[Share], tokens: int) -> Section | None:
    if not shares:
        return None
    rows = [(each.name or "not known", each.documents, each.tokens, percent(each.tokens / max(tokens, 1)))
            for each in shares]  # fmt: skip
    return name, heading, table((column, "documents", "tokens", "share"), rows)
