"""What a model has been trained on, and what became of a take-down list."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.ledger import Ledger, Share, TakeDown
from gristmill.show.terminal import line, percent, table

_SHOWN = 20


def show_ledger(title: str, ledger: Ledger) -> None:
    """The sums of a ledger."""
    line(f"{title} before step {ledger.until:,}: {ledger.tokens:,} tokens of {ledger.documents:,} documents")
    _shares("source", ledger.sources, ledger.tokens)
    if ledger.domains:
        _shares(f"domain, of {ledger.domain_count:,}", ledger.domains, ledger.tokens)
    if ledger.licences:
        _shares("licence", ledger.licences, ledger.tokens)


def _shares(name: str, shares: Sequence[Share], tokens: int) -> None:
    line("")
    table("", (name, "documents", "tokens", "share"), [
        (share.name or "not known", share.documents, share.tokens, percent(share.tokens, tokens)) for share in shares
    ])  # fmt: skip


def show_take_down(found: TakeDown) -> None:
    """How many of the ids the model has been trained on, and the first of them with their steps."""
    line(f"{found.trained:,} of {found.asked:,} documents were trained on before step {found.until:,}: "
         f"{found.tokens:,} tokens.")  # fmt: skip
    rows = found.table.slice(0, _SHOWN).select(["id", "store", "tokens", "rows", "first_step", "last_step"]).to_pylist()
    if rows:
        line("")
        cells = [["never" if value is None else value for value in row.values()] for row in rows]
        table("", ("document", "store", "tokens", "rows", "first step", "last step"), cells)
    if found.table.num_rows > _SHOWN:
        line(f"and {found.table.num_rows - _SHOWN:,} more: --out FILE writes them all, with every step.")
    if found.unknown:
        named = ", ".join(found.unknown[:5]) + (", …" if len(found.unknown) > 5 else "")
        line(f"{len(found.unknown):,} ids are in none of the stores: {named}")
