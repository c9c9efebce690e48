"""The report of a store: what went in, what fell out and why, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.funnel import FunnelStep
from gristmill.figures.lengths import LengthBin, LengthFigures, SequenceFit
from gristmill.figures.picture import StorePicture
from gristmill.report.account import dropped_section, duplicates_section
from gristmill.report.charts import Point, bars, columns, pie
from gristmill.report.markup import Html, html, joined, tag
from gristmill.report.page import (
    Number,
    Section,
    bar,
    details,
    facts,
    figure,
    grid,
    notes,
    page,
    paragraph,
    percent,
    sections,
    size,
    table,
    tiles,
)
from gristmill.report.sources import fields_section, provenance_section
from gristmill.store.manifest import SPLITS

_PARTS = 12  # sources of a pie; the rest is one


def store_page(picture: StorePicture) -> Html:
    """The whole page."""
    made = [
        funnel_section(picture),
        mix_section(picture),
        lengths_section(picture),
        tokens_section(picture),
        fields_section(picture),
        duplicates_section(picture.clusters),
        dropped_section(picture),
        provenance_section(picture),
    ]
    top = joined([_tiles(picture), notes(picture.warnings)])
    shown = sections(part for part in made if part is not None)
    manifest = picture.store.manifest
    about = f"{manifest.tokenizer.get('name', 'unknown')} tokens, {manifest.dtype}, EOS {manifest.eos}"
    return page(f"Report of {picture.store.path}", joined([top, shown]), subtitle=about)


def _tiles(picture: StorePicture) -> Html:
    steps, text_bytes = picture.store.steps, text_size(picture)
    splits = {f"in {name}": f"{split.tokens:,}" for name, split in picture.store.splits.items()}
    return tiles({
        **({"documents read": steps.kept[1]} if steps.kept else {}),
        "documents in the store": picture.lengths.documents,
        "tokens": picture.lengths.tokens,
        **({"text": size(text_bytes)} if text_bytes else {}),
        **{f"tokens {name}": shown for name, shown in splits.items()},
    })  # fmt: skip


def text_size(picture: StorePicture) -> int:
    """Bytes of text in the splits, by the funnel."""
    return sum(row.get("bytes", 0) for row in picture.store.manifest.funnel if row["stage"] in SPLITS)


def funnel_section(picture: StorePicture) -> Section | None:
    """Documents, bytes and tokens that each step left."""
    funnel = picture.store.steps
    if not funnel.steps:
        return None
    shown = [step for step in funnel.steps if step.name not in SPLITS]
    charts = [_funnel_chart(picture, shown, *about) for about in _MEASURES]
    idle = paragraph(f"Nothing was dropped by {', '.join(funnel.idle)}.", class_="faint") if funnel.idle else ""
    return (
        "funnel",
        "What each step left",
        joined([grid(*charts), _funnel_table(funnel.steps), idle, _sources(picture)]),
    )


_MEASURES = (
    ("documents", "documents", "Documents after each step"),
    ("bytes", "bytes of text", "Text after each step"),
    ("tokens", "tokens", "Tokens after each step"),
)


def _funnel_chart(picture: StorePicture, steps: list[FunnelStep], key: str, unit: str, title: str) -> Html:
    first = max((getattr(step, key) for step in steps), default=0) or 1
    points = [Point(step.name, getattr(step, key), _hover(picture, step, key, unit, first)) for step in steps]
    return figure(bars(title, [(title, points)]), title)


def _hover(picture: StorePicture, step: FunnelStep, key: str, unit: str, first: int) -> str:
    """`length: 1,206 documents, 99.6%`, and a line for each source."""
    value = getattr(step, key)
    rows = [row for row in picture.store.manifest.funnel if row["stage"] == step.name]
    own = (f"{row['source']}: {row.get(key, 0):,}" for row in rows[:_PARTS])
    return "\n".join([f"{step.name}: {value:,} {unit} ({value / first:.1%})", *own])


def _funnel_table(steps: Sequence[FunnelStep]) -> Html:
    rows = [_funnel_row(step) for step in steps]
    return table(("step", "documents", "kept", "text", "tokens", "why documents went"), rows, under=True)


def _funnel_row(step: FunnelStep) -> list[object]:
    why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(step.reasons.items(), key=lambda one: -one[1]))
    times = ", ".join(f"{name} {count:.2f} times" for name, count in step.times.items())
    kept = percent(step.kept[0] / step.kept[1]) if step.kept and step.kept[1] else Number("")
    return [step.name, step.documents, kept, size(step.bytes), step.tokens, why or times]


def _sources(picture: StorePicture) -> Html:
    rows = [(part.name, part.read, part.left, percent(part.left / part.read if part.read else None), part.tokens)
            for part in picture.store.steps.sources]  # fmt: skip
    return table(("source", "documents read", "left by the rules", "kept", "tokens in the store"), rows)


def mix_section(picture: StorePicture) -> Section | None:
    """Shares of the sources, in documents and in tokens, beside those that the recipe wants."""
    if not picture.mix:
        return None
    pies = [figure(pie(title, _pie_points(picture, key)), title)
            for key, title in (("documents", "Documents by source"), ("tokens", "Tokens by source"))]  # fmt: skip
    targets = [figure(_target_chart(picture), f"Share of {picture.mix_unit} against the recipe's mix")]
    has_target = any(part.target is not None for part in picture.mix)
    columns = ("source", "documents", "share", "tokens", "share", "target")
    rows = [(part.source, part.documents, percent(part.document_share), part.tokens, percent(part.token_share),
             percent(part.target)) for part in picture.mix]  # fmt: skip
    cut = len(columns) if has_target else len(columns) - 1
    shown = [grid(*pies, *(targets if has_target else ())), table(columns[:cut], [row[:cut] for row in rows])]
    return "mix", "What it is made of", joined(shown)


def _pie_points(picture: StorePicture, key: str) -> list[Point]:
    parts = sorted(picture.mix, key=lambda part: -part.tokens)  # a source has one colour in all charts
    total = sum(getattr(part, key) for part in parts) or 1
    named = [(part.source, int(getattr(part, key))) for part in parts[:_PARTS]]
    rest = sum(getattr(part, key) for part in parts[_PARTS:])
    named += [(f"{len(parts) - _PARTS} more", rest)] if rest else []
    return [Point(name, value, f"{name}: {value:,} {key} ({value / total:.1%})") for name, value in named]


def _target_chart(picture: StorePicture) -> Html:
    key = "token_share" if picture.mix_unit == "tokens" else "document_share"
    parts = picture.mix[:_PARTS]
    real = [Point(part.source, getattr(part, key), f"{part.source}: {getattr(part, key):.2%}") for part in parts]
    wanted = [Point(part.source, part.target or 0, f"{part.source}: {part.target or 0:.2%} wanted") for part in parts]
    return bars("Share against target", [("in the store", real), ("wanted", wanted)], "{:.0%}".format)


def lengths_section(picture: StorePicture) -> Section | None:
    """Lengths of documents, and what sequences make of them."""
    found = picture.lengths
    if not found.documents:
        return None
    histograms = [
        _histogram(found, "documents", "Documents by their length in tokens"),
        _histogram(found, "tokens", "Tokens by the length of their document"),
    ]
    known = facts({"median": f"{found.median:,} tokens", "nine of ten are at most": f"{found.ninth_decile:,} tokens",
                   "longest": f"{found.longest:,} tokens"})  # fmt: skip
    fits = table(
        ("seq_len", "documents split by chunk", "padding by pad", "documents cut off by pad", "tokens lost by pad"),
        [_fit_row(found, fit) for fit in found.fits],
        "What sequences of common lengths do to these documents. Pack keeps them whole with little padding.",
    )
    return "lengths", "How long documents are", joined([grid(*histograms), known, fits])


def _histogram(found: LengthFigures, key: str, title: str) -> Html:
    points = [Point(_short_bin(bin.least), getattr(bin, key), _bin_hover(bin, key)) for bin in found.bins]
    return figure(columns(title, points), f"{title}; each bar doubles the length")


def _bin_hover(bin: LengthBin, key: str) -> str:
    return f"{bin.least:,} to {bin.most:,} tokens: {getattr(bin, key):,} {key}"


def _short_bin(least: int) -> str:
    return f"{least >> 20} Mi" if least >= 1 << 20 else f"{least >> 10} Ki" if least >= 1 << 10 else str(least)


def _fit_row(found: LengthFigures, fit: SequenceFit) -> tuple[object, ...]:
    return (
        fit.seq_len,
        percent(fit.split_documents / found.documents),
        percent(fit.padding_tokens / (found.documents * fit.seq_len)),
        percent(fit.truncated_documents / found.documents),
        percent(fit.truncated_tokens / found.tokens),
    )


def tokens_section(picture: StorePicture) -> Section | None:
    """Bytes a token, and which ids are used."""
    use, text_bytes = picture.usage, text_size(picture)
    if not use.read:
        return None
    sampled = (
        f"Counted in {use.read:,} of {use.tokens:,} tokens, read in pieces that lie evenly." if use.sampled else ""
    )
    known = facts({
        **({"bytes a token": f"{text_bytes / picture.lengths.tokens:.3f}"} if text_bytes else {}),
        "vocabulary": f"{use.vocab_size:,} ids",
        "ids never used": joined([use.unused, " (", percent(use.unused / max(use.vocab_size, 1)), ")"]),
    })  # fmt: skip
    top = use.most[0].count
    rows = [(token.id, tag("code", html(token.text.replace("\n", "⏎").replace(" ", "␣"))), token.count,
             percent(token.count / use.read), bar(token.count / top)) for token in use.most]  # fmt: skip
    most = details("The most frequent tokens", table(("id", "token", "count", "share", ""), rows))
    return "tokens", "Tokens", joined([paragraph(sampled, class_="faint") if sampled else "", known, most])
