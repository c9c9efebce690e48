"""Fields that documents carry, counted: languages, domains, licences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gristmill.figures.tables import columns_of, connection, document_files, rows
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.account import DROPPED
from gristmill.store.reader import Store

# What is counted, and the names that its field goes by.
FIELDS: Mapping[str, Sequence[str]] = {
    "languages": ("language", "lang"),
    "licences": ("license", "licence", "spdx"),
    "domains": ("domain", "url", "uri"),
}
_VALUES = 20
_VALUE_CHARS = 120
_HOST = r"regexp_extract({}, '^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(?:[^/?#@]*@)?([^/?#:]*)', 1)"


@dataclass(frozen=True)
class FieldValue:
    """A value that documents carry; None where the field is empty."""

    value: str | None
    documents: int
    tokens: int


@dataclass(frozen=True)
class FieldFigures:
    """The commonest values of a field, and how many different ones there are."""

    field: str
    documents: int
    values: int
    most: list[FieldValue]


def field_figures(stores: Sequence[Store]) -> dict[str, FieldFigures]:
    """Languages, licences and domains, as far as the documents' tables have them."""
    files = document_files(stores)
    names = columns_of(files)
    found = {about: next((name for name in known if name in names), None) for about, known in FIELDS.items()}
    return {about: _counted(files, name, about) for about, name in found.items() if name is not None}


def _counted(files: Sequence[str], field: str, about: str) -> FieldFigures:
    # Its name is one of FIELDS: nothing of the user's gets into the query.
    value = f"lower({_HOST.format(field)})" if about == "domains" else field
    docs = rows(files, pa.schema([(field, pa.string()), ("length", pa.int64())]))
    with connection() as database:
        database.register("docs", docs)
        database.execute(
            f"CREATE TABLE counted AS SELECT nullif(left({value}, {_VALUE_CHARS}), '') AS value, count(*) AS documents,"
            " sum(length)::BIGINT AS tokens FROM docs GROUP BY 1"
        )
        documents, values = database.execute("SELECT sum(documents)::BIGINT, count(value) FROM counted").fetchall()[0]
        most = database.execute(
            f"SELECT value, documents, tokens FROM counted ORDER BY documents DESC, value LIMIT {_VALUES}"
        ).fetchall()
    return FieldFigures(field, documents or 0, values, [FieldValue(*row) for row in most])


def dropped_languages(root: Address) -> FieldFigures | None:
    """Languages for which rules `language` (and `language-2`) dropped documents; how long these were is not known."""
    path = root / DROPPED
    if not place_at(path).exists():
        return None
    schema = pa.schema([("rule", pa.string()), ("detail", pa.string())])
    with connection() as database:
        database.register("gone", rows([str(path)], schema))
        found = database.execute(
            "SELECT detail, count(*) AS documents, 0 FROM gone WHERE rule = 'language' OR rule LIKE 'language-%'"
            " GROUP BY 1 ORDER BY documents DESC, detail"
        ).fetchall()
    values = [FieldValue(*row) for row in found]
    return FieldFigures("language", sum(value.documents for value in values), len(values), values[:_VALUES])
