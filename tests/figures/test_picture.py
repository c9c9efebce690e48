from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.figures.carried import dropped_languages
from gristmill.figures.near_limits import tightened
from gristmill.figures.picture import mix_parts, store_picture


def _row(i: int) -> dict[str, object]:
    text = " ".join(f"word{i}x{j}" for j in range(10 + i))
    url = f"HTTPS://user@WWW.Mill{i % 3}.example:80/{i}"
    return {"id": f"d{i}", "text": text, "license": "MIT" if i % 2 else None, "url": url}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of 10 to 69 words, kept from 30 on; half of them with a licence."""
    folder = tmp_path_factory.mktemp("picture")
    rows = [_row(i) for i in range(60)]
    (folder / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "web", "paths": [str(folder / "raw.jsonl")], "fields": ["license", "url"]}
    recipe = {"out": str(folder / "store"), "sources": [source], "tokenizer": "byte", "store": {"val_fraction": 0.0},
              "filters": [{"length": {"min_words": 30, "min_chars": 0}}, {"length": {"max_lines": 9}}]}  # fmt: skip
    gm.prepare(recipe, progress=False, options={"workers": 1, "keep_dropped": True})
    return folder / "store"


def test_documents_that_a_rule_just_kept_are_those_nearest_to_its_limit(root: Path) -> None:
    found = store_picture(root).near_limits["length/too_few_words"]
    assert [row["value"] for row in found] == [30.0, 31.0]


def test_rules_of_one_name_are_told_apart_among_what_they_just_kept(tmp_path: Path) -> None:
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(_row(i)) + "\n" for i in range(60)))
    rules = [{"length": {"min_words": 20, "min_chars": 0}}, {"length": {"min_words": 30, "min_chars": 0}}]
    recipe = {"out": str(tmp_path / "store"), "sources": [{"name": "web", "paths": [str(tmp_path / "raw.jsonl")]}],
              "tokenizer": "byte", "store": {"val_fraction": 0.0}, "filters": rules}  # fmt: skip
    gm.prepare(recipe, progress=False, options={"workers": 1})
    found = store_picture(tmp_path / "store").near_limits
    assert {name: [row["value"] for row in rows] for name, rows in found.items()} == {
        "length-2/too_few_words": [30.0, 31.0]  # none that is left is near the limit of the first
    }


def test_fields_are_counted_with_those_that_lack_them_and_hosts_are_read_from_urls(root: Path) -> None:
    fields = store_picture(root).fields
    assert {value.value: value.documents for value in fields["licences"].most} == {"MIT": 20, None: 20}
    assert {value.value for value in fields["domains"].most} == {f"www.mill{i}.example" for i in range(3)}
    assert fields["domains"].documents == 40 and "languages" not in fields


def test_an_empty_val_is_warned_of(root: Path) -> None:
    assert any("val is empty" in said for said in store_picture(root).warnings)


def test_limits_are_tightened_and_nothing_else() -> None:
    given = {"min_words": 50, "max_words": 100, "min_score": 0.5, "dup_line_frac": 0.3, "keep": ["en"], "variant": "x",
             "min_stop_words": 0, "max_chars": None, "dup_n_grams": [[5, 0.2]], "line_punct_ratio": 0.1,
             "flag": True}  # fmt: skip
    found = tightened(given, 0.1)
    assert (found["min_words"], found["max_words"]) == (55, 90)
    assert found["min_score"] == pytest.approx(0.55) and found["dup_line_frac"] == pytest.approx(0.27)
    assert found["dup_n_grams"] == [[5, pytest.approx(0.18)]] and found["line_punct_ratio"] == pytest.approx(0.11)
    assert all(found[key] == given[key] for key in ("keep", "variant", "min_stop_words", "max_chars", "flag"))


def test_a_mix_is_held_against_its_weights() -> None:
    rows = [{"stage": "train", "source": "a", "documents": 1, "tokens": 30},
            {"stage": "val", "source": "a", "documents": 1, "tokens": 10},
            {"stage": "train", "source": "b", "documents": 2, "tokens": 60}]  # fmt: skip
    a, b = mix_parts(rows, {"weights": {"a": 1, "b": 3}})
    assert (a.documents, a.tokens, a.document_share, a.token_share, a.target) == (2, 40, 0.5, 0.4, 0.25)
    assert b.target == 0.75 and mix_parts(rows, {})[0].target is None


def test_languages_that_a_rule_dropped_are_counted(tmp_path: Path) -> None:
    gone = [("language", "de"), ("language-2", "de"), ("language", None), ("length", "3"), ("length-2", "de")]
    table = pa.table({"rule": [rule for rule, _ in gone], "detail": [detail for _, detail in gone]})
    pq.write_table(table, tmp_path / "dropped.parquet")
    found = dropped_languages(tmp_path)
    assert found is not None and [(row.value, row.documents) for row in found.most] == [("de", 2), (None, 1)]
    assert dropped_languages(tmp_path / "none") is None
