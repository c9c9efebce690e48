"""`gm.create_balanced_mix`: from lists and files, to a list and to a store (whose mix is tested in stages)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

SOURCES: dict[str, Any] = {
    "wiki": [f"wiki {i}" for i in range(300)],
    "books": [f"book {i}" for i in range(4)],
    "web": [f"web {i}" for i in range(50)],
}
PROPORTIONS = {"wiki": 0.10, "books": 0.15, "web": 0.75}


def kinds(texts: list[str]) -> Counter[str]:
    return Counter(text.split()[0] for text in texts)


def test_lists_in_memory_become_a_list_of_the_size_asked_for() -> None:
    mixed = gm.create_balanced_mix(sources=SOURCES, proportions=PROPORTIONS, target_size=100)
    assert kinds(mixed) == {"wiki": 10, "book": 15, "web": 75}
    assert mixed == gm.create_balanced_mix(SOURCES, PROPORTIONS, 100)


def test_large_sources_are_sampled_and_small_ones_repeated_evenly() -> None:
    counts = Counter(gm.create_balanced_mix(SOURCES, PROPORTIONS, 100))
    assert {counts[text] for text in SOURCES["books"]} == {3, 4}
    assert {counts[text] for text in SOURCES["web"]} == {1, 2}
    assert {counts[text] for text in SOURCES["wiki"]} == {0, 1}


def test_the_seed_chooses_the_sample_and_the_order() -> None:
    first, second = (gm.create_balanced_mix(SOURCES, PROPORTIONS, 100, seed=seed) for seed in (0, 1))
    assert first != second and {*first} != {*second}
    assert first != sorted(first, key=lambda text: text.split()[0])


@pytest.mark.parametrize("target", [1, 7, 99, 1000])
def test_sizes_are_exact(target: int) -> None:
    found = kinds(gm.create_balanced_mix(SOURCES, PROPORTIONS, target))
    assert found.total() == target
    assert all(
        abs(found[{"books": "book"}.get(name, name)] - share * target) < 1 for name, share in PROPORTIONS.items()
    )


def test_documents_in_memory_may_be_of_any_kind_and_come_back_as_they_are() -> None:
    rows = [{"text": "a"}, {"text": "b"}]
    (found,) = gm.create_balanced_mix({"x": iter(rows), "y": []}, {"x": 1, "y": 0}, 1)
    assert any(found is row for row in rows)


def test_files_become_a_list_of_their_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n')
    sources = {"a": {"paths": [str(tmp_path / "a.txt")], "documents": "line"}, "b": tmp_path / "b.jsonl"}
    assert sorted(gm.create_balanced_mix(sources, {"a": 0.5, "b": 0.5}, 4)) == ["one", "three", "three", "two"]


def test_lists_in_memory_become_a_store_beside_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("from a file")
    sources = {"memory": [f"text {i} é\n" for i in range(9)], "file": str(tmp_path / "b.txt")}
    stores = []
    for name in ("one", "two"):
        manifest = gm.create_balanced_mix(
            sources, {"memory": 0.5, "file": 0.5}, 8, out=tmp_path / name, tokenizer="byte", clean=None
        )
        stores.append((tmp_path / name / "manifest.json").read_bytes())
        assert {row["source"]: row["documents"] for row in manifest.funnel if row["stage"] == "mix"} == {
            "memory": 4, "file": 4
        }  # fmt: skip
    assert stores[0] == stores[1]
    found = [gm.open(tmp_path / "one" / split) for split in ("train", "val")]
    texts = {store.document(i).text for store in found for i in range(store.num_documents)}
    assert texts < {*sources["memory"], "from a file"} and len(texts) == 5


@pytest.mark.parametrize(
    ("sources", "proportions", "said"),
    [
        ({"a": ["x"]}, {"b": 1.0}, "proportions has 'b', which is no source"),
        ({"a": ["x"], "b": ["y"]}, {"a": 1.0}, "The source 'b' has no proportion"),
        ({"a": ["x"]}, {"a": 0.5}, "sum to 1, not 0.5"),
        ({"a": 5}, {"a": 1.0}, "is a path or a list of documents, not int"),
        ([["x"]], {"a": 1.0}, "sources is a mapping"),
        ({"a": ["x"]}, [1.0], "proportions is a mapping"),
        ({"a": "no/such/file"}, {"a": 1.0}, "names no file"),
        ({"a": {"path": "x"}}, {"a": 1.0}, "Unknown key 'path' in the source 'a'"),
    ],
)
def test_what_cannot_be_mixed_is_a_sentence(sources: Any, proportions: Any, said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        gm.create_balanced_mix(sources, proportions, 3)


def test_an_empty_source_is_named() -> None:
    with pytest.raises(gm.SourceError, match="wants 3 documents of 'a', which has none left"):
        gm.create_balanced_mix({"a": []}, {"a": 1.0}, 3)


def test_a_list_of_file_names_is_not_taken_for_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(gm.ConfigError, match="all of them are names of files"):
        gm.create_balanced_mix({"a": [str(tmp_path / "a.txt")]}, {"a": 1.0}, 3)


@pytest.mark.parametrize("option", [{"unit": "tokens"}, {"tokenizer": "byte"}, {"overwrite": True}])
def test_what_is_for_a_store_needs_a_place_for_it(option: dict[str, Any]) -> None:
    with pytest.raises(gm.ConfigError, match=f"{next(iter(option))} is for a store: say where it goes by out="):
        gm.create_balanced_mix({"a": ["x"]}, {"a": 1.0}, 3, **option)


def test_a_store_is_made_of_texts(tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match="the source 'a' holds dict"):
        gm.create_balanced_mix({"a": [{}]}, {"a": 1.0}, 3, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
