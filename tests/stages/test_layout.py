"""A mix that is fixed when the store is made: exact shares, small sources repeated, large ones sampled."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.recipe import StoreOptions

WEIGHTS = {"wiki": 0.10, "books": 0.15, "web": 0.75}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    for name, count in (("wiki", 1000), ("books", 40), ("web", 500)):
        rows = (json.dumps({"id": f"{name}{i}", "text": f"{name} number {i}"}) for i in range(count))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    return {name: str(tmp_path / f"{name}.jsonl") for name in WEIGHTS}


def documents(root: Path) -> list[tuple[str, str, str]]:
    stores = [gm.open(root / split) for split in ("train", "val")]
    found = [store.document(i) for store in stores for i in range(store.num_documents)]
    return [(document.source, document.id, document.text) for document in found]


def mixed(tmp_path: Path, sources: dict[str, str], name: str = "out", target: int = 1000, **options: object) -> Path:
    gm.create_balanced_mix(sources, WEIGHTS, target, out=tmp_path / name, tokenizer="byte", **options)  # type: ignore[arg-type]
    return tmp_path / name


@pytest.mark.parametrize("target", [1, 7, 1000, 2000])
def test_sources_have_exactly_their_shares_of_documents(tmp_path: Path, sources: dict[str, str], target: int) -> None:
    counts = Counter(source for source, _, _ in documents(mixed(tmp_path, sources, target=target)))
    assert counts.total() == target
    for name, weight in WEIGHTS.items():
        assert abs(counts[name] - weight * target) < 1


def test_small_sources_are_repeated_evenly_and_large_ones_sampled(tmp_path: Path, sources: dict[str, str]) -> None:
    found = documents(mixed(tmp_path, sources))
    copies = Counter(text for source, _, text in found if source == "books")
    assert len(copies) == 40 and set(copies.values()) == {3, 4} and copies.total() == 150
    assert len({text for source, _, text in found if source == "wiki"}) == 100
    assert len({identity for _, identity, _ in found}) == len(found)
    assert {identity.partition("#")[2] for source, identity, _ in found if source == "books"} == {"", "2", "3", "4"}


def test_the_seed_chooses_the_sample(tmp_path: Path, sources: dict[str, str]) -> None:
    same, again, other = (mixed(tmp_path, sources, name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert documents(same) == documents(again) != documents(other)


def test_shares_in_tokens_are_met_by_less_than_a_document_each(tmp_path: Path, sources: dict[str, str]) -> None:
    root = mixed(tmp_path, sources, target=20_000, unit="tokens", store=StoreOptions(val_fraction=0))
    store = gm.open(root / "train")
    counts: Counter[str] = Counter()
    for i in range(store.num_documents):
        counts[store.document(i).source] += len(store.document(i).tokens)
    for name, weight in WEIGHTS.items():
        assert 0 <= counts[name] - weight * 20_000 < 5 * 20  # the last document of each pass may go over


def test_the_report_says_how_often_a_source_is_in_the_store(tmp_path: Path, sources: dict[str, str]) -> None:
    rows = json.loads((mixed(tmp_path, sources) / "funnel.json").read_text())
    mix = {row["source"]: row for row in rows if row["stage"] == "mix"}
    assert {name: row["times"] for name, row in mix.items()} == {"wiki": 0.1, "books": 3.75, "web": 1.5}
    ends = Counter[str]()
    for row in rows:
        if row["stage"] in ("train", "val"):
            ends[row["source"]] += row["documents"]
    assert ends == {name: row["documents"] for name, row in mix.items()}


def test_a_source_without_documents_cannot_be_mixed(tmp_path: Path, sources: dict[str, str]) -> None:
    (tmp_path / "wiki.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(gm.SourceError, match=r"100 documents of 'wiki', which has none left"):
        mixed(tmp_path, sources)
