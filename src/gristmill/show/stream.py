"""A stream's first batches in a terminal: what a model would see, how fast it comes, what the filters dropped."""

from __future__ import annotations

from collections.abc import Mapping

from gristmill.core.sizes import megabytes, speed
from gristmill.figures.funnel import sum_up
from gristmill.figures.stream import StreamLook
from gristmill.show.dropped import show_examples
from gristmill.show.funnel import show_funnel
from gristmill.show.terminal import Row, facts, line, paragraph, table

_TEXT = 150


def show_stream(title: str, recipe: str, found: StreamLook, unheeded: Mapping[str, str]) -> None:
    """The figures, the first rows, the funnel, examples of what went, and what of the recipe is left undone."""
    facts(title, _figures(found))
    if found.rows:
        line("")
        columns = ("row", "source", "tokens", "documents", "file")
        table("the first batch begins with", columns, [
            Row((row.row, row.source, row.tokens, row.documents, row.file), _begin(row.text)) for row in found.rows
        ])  # fmt: skip
    show_funnel(sum_up(found.funnel))
    show_examples(found.dropped.groups)
    for name in found.unreadable_first:
        paragraph(f"Not readable: {name}")
    if unheeded:
        line("\nA stream leaves this of the recipe undone:", bold=True)
        for key, why in unheeded.items():
            paragraph(f"{key}: {why}.", indent="  ")
    line("")
    line(f"`gristmill prepare --recipe {recipe}` writes the store of these documents.")


def _figures(found: StreamLook) -> dict[str, object]:
    end = ", all that one pass over the files gives" if found.ended else ""
    return {
        "files": f"{found.files:,}, {megabytes(found.bytes)}, in {found.units:,} units",
        "batches": f"{found.steps:,}{end}",
        "first batch": f"{found.first_batch_seconds:.2f} s",
        "served": f"{found.tokens_per_second / 1e6:,.2f} million tokens/s",
        "read": f"{speed(int(found.read_bytes_per_second), 1)}, {found.documents_per_second:,.0f} documents/s",
        "padding": f"{found.padded_share:.1%} of the tokens",
        **({"cut off": f"{found.truncated_tokens:,} tokens"} if found.truncated_tokens else {}),
        **({"not readable": f"{found.unreadable:,} documents"} if found.unreadable else {}),
    }


def _begin(text: str) -> str:
    flat = " ".join(text.split())
    return flat[:_TEXT] + "…" * (len(flat) > _TEXT)
