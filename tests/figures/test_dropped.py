"""What went from a store: counted by rule and reason, with examples that lie evenly over the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError, StoreError
from gristmill.curate.ledger import dropped_schema
from gristmill.figures import dropped as figures
from gristmill.figures.dropped import dropped, dropped_page, find_document
from gristmill.stages.account import DROPPED

ANY: dict[str, str | None] = {}


def written(folder: Path, rows: Sequence[tuple[str, str, str]], *, texts: bool = True, group: int = 100) -> Path:
    """A `dropped.parquet` of (rule, reason, source); the text of row i is `text i`."""
    values = [{"id": f"d{i}", "row": i, "rule": rule, "reason": reason, "source": source, "text": f"text {i}"}
              for i, (rule, reason, source) in enumerate(rows)]  # fmt: skip
    table = pa.Table.from_pylist(values, schema=dropped_schema())
    kept = [name for name in table.column_names if name not in ("doc", "kept") and (texts or name != "text")]
    pq.write_table(table.select(kept), folder / DROPPED, row_group_size=group)
    return folder


@pytest.fixture
def account(tmp_path: Path) -> Path:
    rows = [("length", "too_few_chars", "web")] * 1000 + [("c4", "no_terminal_punct", "web")] * 300
    rows += [("length", "too_few_chars", "books")] * 200 + [("length", "too_many_chars", "books")]
    return written(tmp_path, rows)


def test_documents_are_counted_by_rule_and_reason_the_commonest_first(account: Path) -> None:
    found = dropped(account, ANY, 2)
    assert found.documents == 1501 and found.has_texts
    counts = [(group.rule, group.reason, group.documents, dict(group.sources)) for group in found.groups]
    assert counts == [
        ("length", "too_few_chars", 1200, {"web": 1000, "books": 200}),
        ("c4", "no_terminal_punct", 300, {"web": 300}),
        ("length", "too_many_chars", 1, {"books": 1}),
    ]


def test_examples_lie_evenly_over_the_file_and_are_whole_rows_in_its_order(account: Path) -> None:
    (group, *_) = dropped(account, ANY, 6).groups
    places = [row["row"] for row in group.examples]
    assert places == sorted(places) and len(set(places)) == 6
    assert places[0] < 400 and places[-1] >= 1300 and any(400 <= place < 1000 for place in places)
    assert all(row["text"] == f"text {row['row']}" and row["id"] == f"d{row['row']}" for row in group.examples)


@pytest.mark.parametrize(
    ("asked", "counts"),
    [({"rule": "length"}, [1200, 1]), ({"reason": "too_many_chars"}, [1]), ({"source": "books"}, [200, 1]),
     ({"rule": "length", "source": "web"}, [1000]), ({"rule": "c4", "source": "books"}, [])],
)  # fmt: skip
def test_a_rule_a_reason_or_a_source_is_looked_at_alone(
    account: Path, asked: dict[str, str | None], counts: list[int]
) -> None:
    found = dropped(account, asked, 3)
    assert [group.documents for group in found.groups] == counts and found.documents == 1501
    for row in (row for group in found.groups for row in group.examples):
        assert all(row[name] == value for name, value in asked.items())


@pytest.mark.parametrize(
    "asked", [{}, {"rule": "length"}, {"source": "books"}, {"reason": "too_many_chars"}, {"rule": "x"}]
)
@pytest.mark.parametrize("most", [250, 1 << 22])
def test_rows_are_turned_page_by_page_until_all_that_fit_were_seen(
    account: Path, asked: dict[str, str | None], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few rows are looked at for one page."""
    monkeypatch.setattr(figures, "_MOST_ROWS", most)
    monkeypatch.setattr(figures, "_BATCH_ROWS", 128)
    whole = pq.read_table(account / DROPPED).to_pylist()
    expected = [row["row"] for row in whole if all(row[name] == value for name, value in asked.items())]
    seen: list[object] = []
    after: int | None = 0
    while after is not None:
        rows, after = dropped_page(account, asked, after, 70)
        assert len(rows) <= 70 and all(row["text"] == f"text {row['row']}" for row in rows)
        seen += [row["row"] for row in rows]
    assert seen == expected


def test_a_store_without_an_account_has_no_page_of_it(tmp_path: Path) -> None:
    assert dropped_page(tmp_path, ANY, 0, 10) == ([], None)


def test_fewer_documents_than_examples_are_all_shown_and_none_may_be_asked_for(account: Path) -> None:
    assert len(dropped(account, {"reason": "too_many_chars"}, 9).groups[0].examples) == 1
    assert dropped(account, ANY, 0).groups[0].examples == []


def test_a_file_without_texts_says_so(tmp_path: Path) -> None:
    found = dropped(written(tmp_path, [("length", "too_few_chars", "web")], texts=False), ANY, 1)
    assert not found.has_texts and "text" not in found.groups[0].examples[0]


def test_a_split_finds_the_file_of_its_store_and_an_empty_file_has_no_groups(tmp_path: Path) -> None:
    written(tmp_path, [])
    assert dropped(tmp_path / "train", ANY, 1).groups == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rule": "lenght"}, r'by rule="lenght" \(did you mean \'length\'\?\)'),
        ({"source": "code"}, "known: books, web"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_known_ones(
    account: Path, asked: dict[str, str | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dropped(account, asked, 1)


def test_a_store_without_the_file_says_which_have_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`gristmill prepare` writes one"):
        dropped(tmp_path, ANY, 1)


@pytest.mark.parametrize("damage", ["cut", "flipped", "another", "empty"])
def test_a_damaged_file_is_one_error(account: Path, damage: str) -> None:
    path = account / DROPPED
    data = bytearray(path.read_bytes())
    data[4:400] = b"\xff" * 396
    ways: dict[str, Any] = {"cut": path.read_bytes()[:-20], "flipped": bytes(data), "empty": b""}
    if damage == "another":
        pq.write_table(pa.table({"rule": ["a"]}), path)
    else:
        path.write_bytes(ways[damage])
    with pytest.raises(StoreError, match=r"dropped\.parquet cannot be read"):
        dropped(account, ANY, 1)


def opened(store: Path) -> list[gm.Store]:
    return [gm.open(store / "train"), gm.open(store / "val")]


def test_a_document_has_its_place_its_fields_and_its_text(store: Path) -> None:
    (found,), dropped = find_document(store, opened(store), "d7")
    assert found["text"] == "Document 7 tells of the mill and of its wheel." and found["source"] == "web"
    assert not dropped
    held = gm.open(str(found["store"]))
    assert held.document_span(int(str(found["number"]))) == (found["start"], found["end"])


def test_one_that_a_rule_dropped_has_the_rule_the_reason_and_its_text(store: Path) -> None:
    found, (row,) = find_document(store, opened(store), "d40")
    assert not found and (row["rule"], row["reason"], row["text"]) == ("length", "too_few_chars", "short")


def test_an_id_that_nothing_has_is_an_error_that_names_the_stores(store: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"train and .*val has the id 'none'"):
        find_document(store, opened(store), "none")
