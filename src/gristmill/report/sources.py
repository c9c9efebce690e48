"""What a report tells of where documents come from: fields that they carry, inputs, recipe, versions and sums."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import yaml

from gristmill.figures.carried import FieldFigures
from gristmill.figures.picture import StorePicture
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import Section, bar, details, facts, percent, size, snippet, table

_RECIPE_CHARS = 100_000


def fields_section(picture: StorePicture) -> Section | None:
    """Languages, licences and domains, where documents carry them, and languages that a rule dropped."""
    gone = picture.dropped_languages
    parts = [_field(about, found) for about, found in picture.fields.items()]
    parts += [_dropped(gone)] if gone and gone.most else []
    return ("fields", "Languages, licences and domains", joined(parts)) if parts else None


def _dropped(found: FieldFigures) -> Html:
    rows = [(value.value if value.value is not None else tag("i", "not known"), value.documents,
             percent(value.documents / found.documents), bar(value.documents / found.documents))
            for value in found.most]  # fmt: skip
    shown = table(
        ("language", "documents", "share", ""), rows, "By what the rule found, of the documents that it dropped"
    )
    return joined([tag("h3", "Languages that the rule language dropped"), shown])


def _field(about: str, found: FieldFigures) -> Html:
    total = found.documents or 1
    rows = [(value.value if value.value is not None else tag("i", "none given"), value.documents,
             percent(value.documents / total), value.tokens, bar(value.documents / total))
            for value in found.most]  # fmt: skip
    more = f"; the commonest {len(rows)} of {found.values:,}" if found.values > len(rows) else ""
    return joined([tag("h3", about.capitalize()), table((found.field, "documents", "share", "tokens", ""), rows,
                                                         f"By the field {found.field}{more}")])  # fmt: skip


def provenance_section(picture: StorePicture) -> Section:
    """Inputs, recipe, versions, and the names of what was made."""
    manifest, known = picture.store.manifest, picture.provenance
    made = facts({
        **_run_facts(known.run),
        **{f"fingerprint of {name}": tag("code", split.fingerprint or "empty")
           for name, split in picture.store.splits.items()},
        "tokenizer": " ".join(manifest.tokenizer.values()),
        **{f"version of {name}": version for name, version in manifest.versions.items()},
    })  # fmt: skip
    by_source = table(("source", "files", "size"), [(s.source, s.files, size(s.bytes)) for s in known.sources])
    rows = [(file.source, file.path, size(file.bytes), tag("code", file.fingerprint)) for file in known.files]
    files = details(f"Input files ({len(rows)} of {sum(s.files for s in known.sources):,})",
                    table(("source", "file", "size", "fingerprint"), rows))  # fmt: skip
    recipe = yaml.safe_dump(dict(manifest.recipe), sort_keys=False, allow_unicode=True) if manifest.recipe else ""
    shown = details("The recipe, with all defaults", snippet(recipe, most=_RECIPE_CHARS)) if recipe else ""
    inputs = [by_source, files] if known.sources else []
    return "provenance", "Where it comes from", joined([made, *inputs, shown])


def _run_facts(run: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    if isinstance(began := run.get("began"), int | float):
        found["made"] = datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if isinstance(seconds := run.get("seconds"), int | float):
        found["took"] = f"{seconds:,.1f} s"
    return found | {
        key: str(value) for key, value in run.items() if key not in ("began", "seconds", "token_files") and value
    }
