"""Documents by a field of their table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.store.field_search import FieldSearch, fields_of
from gristmill.store.reader import Store
from gristmill.testing import tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Forty documents in several shards, with a text, a number, nothing and a list as fields."""
    folder = tmp_path_factory.mktemp("fields")
    rows = [{"id": f"d{i}", "text": f"text {i} " * 5, "host": f"h{i % 3}", "year": 2000 + i % 4,
             "none": "x" if i == 7 else None} for i in range(40)]  # fmt: skip
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "web", "paths": str(folder / "a.jsonl"), "fields": ["host", "year", "none"]}
    layout = {"val_fraction": 0, "tokens_per_shard": 400}
    recipe = {"sources": [source], "tokenizer": "byte", "clean": "none", "dedup": [], "store": layout}
    gm.prepare({"out": str(folder / "s"), **recipe}, options={"workers": 1}, progress=False)
    opened = gm.open(folder / "s")
    assert opened.num_shards > 2
    return opened


def found(store: Store, field: str, value: str, limit: int = 100) -> FieldSearch:
    search = FieldSearch(store, field, value, limit)
    for _ in search:
        pass
    assert search.read == search.total == len(store)
    return search


@pytest.mark.parametrize(
    ("field", "value"), [("host", "h1"), ("year", "2003"), ("none", "x"), ("id", "d9"), ("host", "")]
)
def test_every_document_with_the_value_is_found(store: Store, field: str, value: str) -> None:
    expected = [i for i, document in enumerate(store) if str(document.record[field]) == value]
    search = found(store, field, value)
    assert search.first == expected and search.hits == len(expected)


def test_all_are_counted_though_few_are_kept(store: Store) -> None:
    search = found(store, "host", "h0", limit=2)
    assert len(search.first) == 2 and search.hits > 2
    assert found(store, "host", "h0", limit=0).first == []


def test_a_field_that_is_not_there_is_refused_with_the_nearest(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"no field 'hosts'.*host"):
        FieldSearch(store, "hosts", "h1")
    with pytest.raises(ConfigError, match="a text"):
        FieldSearch(store, "host", 1)  # type: ignore[arg-type]


def test_files_of_others_have_no_fields(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    assert fields_of(store) == []
    with pytest.raises(ConfigError, match="no field 'url'"):
        FieldSearch(store, "url", "x")
