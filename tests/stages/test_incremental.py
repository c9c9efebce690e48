"""Near duplicates of an earlier run's documents are found by the index that it saved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.curate.dedup.index import index_fingerprint
from gristmill.places.door import address_of, place_at, remove_all
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import RunOptions
from gristmill.store.manifest import MANIFEST


@pytest.fixture(params=["on disk", "in a bucket"])
def indexes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Below which indexes are saved."""
    if request.param == "on disk":
        yield str(tmp_path / "indexes")
        return
    request.getfixturevalue("proxy").begin()
    yield (where := f"s3://corpus/indexes/{tmp_path.name}")
    walked = place_at(where).walk(links=False)
    remove_all([f"{folder}/{name}" for folder, names in walked for name in names])


def prepared(
    root: Path, name: str, texts: dict[str, str], save: str | None = None, index: str | None = None, **run: Any
) -> Path:
    raw = root / f"{name}.jsonl"
    raw.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()))
    dedup = [{"near": {"index": index}}]
    recipe = Recipe(str(root / name), [SourceOptions(name, [str(raw)])], dedup=dedup, tokenizer="byte",
                    store=StoreOptions(val_fraction=0))  # type: ignore[arg-type]  # fmt: skip
    gm.prepare(recipe, options=RunOptions(save_index=save, **run))
    return root / name


def ids(store: Path) -> list[str]:
    opened = gm.open(store / "train")
    return [opened.document(i).id for i in range(opened.num_documents)]


STORY = [" ".join(f"word{(i * 7 + k) % 997}" for i in range(300)) for k in (1, 400, 800)]


def test_a_later_run_drops_what_an_earlier_one_has(tmp_path: Path, indexes: str) -> None:
    first = prepared(tmp_path, "first", {"a": STORY[0], "b": STORY[1]}, save=f"{indexes}/1")
    assert ids(first) == ["a", "b"]
    texts = {"near a": STORY[0] + " more", "new": STORY[2], "near new": STORY[2] + " again"}
    second = prepared(tmp_path, "second", texts, save=f"{indexes}/2", index=f"{indexes}/1")
    assert ids(second) == ["new"]
    dropped = {row["id"]: row["detail"] for row in pq.read_table(second / "dropped.parquet").to_pylist()}
    assert dropped == {"near a": "a", "near new": "new"}
    later = {"x": STORY[0], "y": STORY[2], "z": "something else entirely"}
    work = f"{indexes}/work" if indexes.startswith("s3:") else None
    assert ids(prepared(tmp_path, "third", later, index=f"{indexes}/2", work=work)) == ["z"]
    with pytest.raises(gm.ConfigError, match=rf"{indexes}/1 holds an index already: choose a new folder"):
        prepared(tmp_path, "again", later, save=f"{indexes}/1")
    with pytest.raises(gm.ConfigError, match=rf"{indexes}/3 is no near-duplicate index \(no index.json\)"):
        prepared(tmp_path, "none", later, index=f"{indexes}/3")


def test_an_index_names_the_same_content_wherever_it_lies(tmp_path: Path, proxy: Any) -> None:
    proxy.begin()
    where = {"here": str(tmp_path / "index"), "there": f"s3://corpus/indexes/{tmp_path.name}"}
    for name, index in where.items():
        prepared(tmp_path, name, {"a": STORY[0], "b": STORY[1]}, save=index)
    assert index_fingerprint(address_of(where["here"])) == index_fingerprint(address_of(where["there"]))
    manifests = []
    for index in where.values():
        (tmp_path / "later.jsonl").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "later", ignore_errors=True)
        made = prepared(tmp_path, "later", {"x": STORY[0] + " more", "y": STORY[2]}, index=index)
        manifests.append((made / MANIFEST).read_bytes())
    assert manifests[0] == manifests[1]


def test_saving_an_index_needs_near_dedup(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    recipe = Recipe(str(tmp_path / "out"), [SourceOptions("a", [str(tmp_path / "a.txt")])], tokenizer="byte")
    with pytest.raises(gm.ConfigError, match="needs near dedup"):
        gm.prepare(recipe, options=RunOptions(save_index=str(tmp_path / "index")))
