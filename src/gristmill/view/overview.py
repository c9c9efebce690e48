"""The first page: what is there, its funnel, and the ways in."""

from __future__ import annotations

from gristmill.figures.funnel import FunnelFigures, sum_up
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import bar, facts, notes, paragraph, percent, section, table, tiles
from gristmill.store.field_search import fields_of
from gristmill.store.manifest import SPLITS, Manifest
from gristmill.store.reader import Store
from gristmill.view.parts import Params, choice, entry, form, link, store_choice, whole
from gristmill.view.plan_page import plan_sections
from gristmill.view.subject import Subject

# A document has one id, and a form of its own for it; a source is chosen where documents are listed.
_FOUND_OTHERWISE = ("id", "source", "offset", "length", "content_hash")


def overview(subject: Subject, _params: Params) -> str:
    """The overview of a store, a plan or a run."""
    parts = [_tiles(subject), ask(subject)]
    if subject.plan:
        parts += [plan_sections(subject, subject.plan)]
    parts += [section("Stores", _stores(subject))]
    parts += [_made(root, manifest) for root, manifest in subject.manifests.items()]
    kind = "run" if subject.run else "plan" if subject.plan else "store"
    return whole(
        subject, subject.path.name or str(subject.path), joined(parts), here="./", subtitle=f"A {kind} of Gristmill."
    )


def _tiles(subject: Subject) -> Html:
    stores = subject.stores.values()
    known = all(store.facts.boundary for store in stores)
    return tiles({
        "documents": sum(store.num_documents for store in stores) if known else "not known",
        "tokens": sum(store.num_tokens for store in stores),
        "shards": sum(store.num_shards for store in stores),
        **({"steps": subject.plan.total_steps or "endless"} if subject.plan else {}),
    })  # fmt: skip


def ask_phrase(subject: Subject, phrase: str = "", store: int = 0) -> Html:
    """A phrase to look for."""
    typed = entry("phrase, exactly as it is written", "q", phrase, wide=True)
    return form("search", typed, store_choice(subject, store), button="Search")


def ask(subject: Subject) -> Html:
    """The ways to find something: a phrase, an id, a field, a step."""
    if not subject.stores:
        return notes(["This store is empty: it has no documents."])
    forms = [ask_phrase(subject)]
    forms.append(form("find", entry("id of a document", "id", wide=True), button="Open"))
    fields = [name for name in dict.fromkeys(name for each in subject.stores.values() for name in fields_of(each))
              if name not in _FOUND_OTHERWISE]  # fmt: skip
    if fields:
        named = choice("field", "field", [(name, name) for name in fields])
        forms.append(form("field", named, entry("is", "value", wide=True), store_choice(subject), button="Find"))
    if subject.plan:
        forms.append(form("step", entry("step", "n", kind="number"), button="Go"))
    return section("Find", *forms, id="find")


def _stores(subject: Subject) -> Html:
    rows = []
    for i, (name, store) in enumerate(subject.stores.items()):
        documents = store.num_documents if store.facts.boundary else "not known"
        shown = link(name, "docs", store=i) if store.facts.boundary else name
        rows.append([shown, documents, store.num_tokens, store.num_shards, _kind(store), store.facts.path])
    return table(["name", "documents", "tokens", "shards", "kind", "path"], rows)


def _kind(store: Store) -> str:
    packed = ", compressed" if store.num_shards and store.files.compressed[0] else ""
    return f"{store.dtype.name}{packed}{'' if store.owned else ', foreign'}"


def _made(root: str, manifest: Manifest) -> Html:
    """How a store came to be: its funnel and its sources."""
    figures = sum_up(manifest.funnel)
    named = manifest.tokenizer.get("name", "")
    about = facts({"folder": root, "tokenizer": named, "vocabulary": manifest.vocab_size, "EOS": manifest.eos})
    return section("How it was made", about, _funnel(figures), _sources(figures))


def _funnel(figures: FunnelFigures) -> Html:
    """What each step left, with the reasons by which documents went, each a link to them."""
    most = max((step.documents for step in figures.steps), default=0) or 1
    rows = []
    for step in figures.steps:
        reasons = joined(
            (tag("li", link(reason, "dropped", rule=step.name, reason=reason), f" {count:,}") for reason, count in
             sorted(step.reasons.items(), key=lambda each: -each[1])))  # fmt: skip
        share = percent(step.kept[0] / step.kept[1]) if step.kept and step.kept[1] else ""
        name = step.name if step.name not in SPLITS else f"in {step.name}"
        measure = bar(step.documents / most, f"{step.name}: {step.documents:,} documents")
        rows.append([name, step.documents, share, measure, tag("ul", reasons, class_="plain") if reasons else ""])
    idle = (
        paragraph("Steps that dropped nothing: ", ", ".join(figures.idle), ".", class_="faint") if figures.idle else ""
    )
    return joined([table(["step", "documents left", "kept", "", "why others went"], rows), idle])


def _sources(figures: FunnelFigures) -> Html:
    rows = [[link(source.name, "docs", source=source.name), source.read, source.left, source.tokens]
            for source in figures.sources]  # fmt: skip
    return table(["source", "documents read", "left by the rules", "tokens"], rows) if rows else Html("")
