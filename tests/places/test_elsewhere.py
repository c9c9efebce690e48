"""A place that is not this machine is read like any other: nothing outside the door opens what lies there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gristmill as gm
from gristmill.places import door
from gristmill.places.local import Local
from gristmill.store.verify import verify


class Away(Local):
    """Files whose addresses, away://..., mean nothing to this machine; it counts what is asked of it."""

    root: ClassVar[Path]
    asked: ClassVar[Counter[str]] = Counter()

    def __init__(self, path: str) -> None:
        self.address = path
        super().__init__(os.path.join(self.root, path.removeprefix("away:").lstrip("/")))

    def real(self) -> str:
        return self.address

    def size(self) -> int:
        self.asked["size"] += 1
        return super().size()

    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        cls.asked["sizes"] += 1
        return Local.sizes(cls(path).path for path in paths)

    def walk(self, *, links: bool) -> Iterator[tuple[str, list[str]]]:
        for here, names in super().walk(links=links):
            yield "away://" + os.path.relpath(here, self.root), names

    def matching(self) -> list[str]:
        return ["away://" + os.path.relpath(name, self.root) for name in super().matching()]


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is reached by away:// alone: raw text, and a store made of it."""
    monkeypatch.setitem(door.PLACES, "away", Away)
    Away.root = root = tmp_path / "bucket"
    Away.asked.clear()
    for i in range(8):
        place = root / "raw" / f"{i}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f'{{"id": "{i}-{j}", "text": "{f"text {i} {j} " * 20}"}}\n' for j in range(40)))
    gm.prepare(recipe(root / "corpus", str(root / "raw")))
    return root


def recipe(out: Path, raw: str, **options: Any) -> gm.Recipe:
    store: Any = {"tokens_per_shard": 4_000, "val_fraction": 0.1}
    return gm.Recipe(str(out), [{"name": "web", "paths": [raw]}], tokenizer="byte", store=store, **options)  # type: ignore[list-item]


def test_a_store_elsewhere_is_opened_and_serves_the_same_batches(away: Path) -> None:
    here, there = gm.open(away / "corpus"), gm.open("away://corpus")
    assert there.fingerprint == here.fingerprint and there.num_shards > 10
    assert there.document(7).text == here.document(7).text and there.locate(["3-7"]) == here.locate(["3-7"])
    loaders = [gm.Loader(gm.Plan(store, seq_len=64, batch_size=8, seed=1), keys=("labels", "doc_ids"))
               for store in (here, there)]  # fmt: skip
    for step in (0, 5, 40):
        mine, its = (loader.batch(step) for loader in loaders)
        assert all(np.array_equal(mine[key], its[key]) for key in mine)


def test_opening_a_store_elsewhere_asks_for_all_sizes_at_once(away: Path) -> None:
    gm.open("away://corpus/train")
    assert Away.asked == {"sizes": 1}


def test_a_store_elsewhere_is_verified(away: Path) -> None:
    assert verify(Path("away://corpus")).whole
    shard = away / "corpus" / "train" / "shard-00001.bin"
    shard.write_bytes(bytes(shard.stat().st_size))
    assert any("shard-00001" in fault for fault in verify(Path("away://corpus")).faults)


@pytest.mark.parametrize("given", ["away://raw", "away://raw/*.jsonl", "away://raw/{0..7}.jsonl"])
def test_sources_elsewhere_make_the_same_store(away: Path, tmp_path: Path, given: str) -> None:
    made = gm.prepare(recipe(tmp_path / "out", given))
    assert made.splits == gm.prepare(recipe(tmp_path / "again", str(away / "raw"))).splits


def test_a_file_elsewhere_that_is_missing_is_named(away: Path) -> None:
    (away / "corpus" / "train" / "shard-00002.bin").unlink()
    with pytest.raises(gm.StoreError, match=r"shard-00002\.bin is missing"):
        gm.open("away://corpus")
