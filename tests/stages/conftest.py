"""Real text in many small units, with duplicates of all kinds, and `prepare` on it in every way it can run."""

from __future__ import annotations

import json
import pydoc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.progress import Quiet
from gristmill.curate.dedup.near import Near
from gristmill.curate.documents import Documents
from gristmill.engine.inline import InlineEngine
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import RunOptions, prepare
from gristmill.stages.near import NearSearch, SignJob
from gristmill.stages.relation import Relation
from gristmill.stages.work import Workshop

PURE = (".bin", ".zst", ".idx", ".sum", ".ids")


def topics() -> list[str]:
    """The help topics of `pydoc`: about 75 English texts with code in them, 300 KB."""
    from pydoc_data.topics import topics as found

    return [pydoc.plain(text) for _, text in sorted(found.items())]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of JSON lines: topics, equal ones again, near ones (a word changed), and others that rules drop."""
    folder = tmp_path_factory.mktemp("raw")
    texts = topics()
    near = [text.replace(" the ", " one ", 1) for text in texts[::4]]
    short = [f"too short {i}\r\n" for i in range(20)]
    everything = texts + texts[::5] + near + short + ["", "\x00"]
    for part in range(6):
        rows = [{"id": f"{part}/{i}", "text": text, "url": f"site/{i}"} for i, text in enumerate(everything[part::6])]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


FULL: dict[str, Any] = {
    "filters": [{"length": {"min_chars": 100}}, {"gopher_repetition": {}}, {"fineweb": {}}],
    "dedup": ["exact", "near", "lines"],
}


def recipe(out: Path, corpus: Path, **options: Any) -> Recipe:
    """All stages over six sources, so six units; `options` of the recipe replace these."""
    sources = [SourceOptions(path.stem, [str(path)], fields=["url"]) for path in sorted(corpus.glob("*.jsonl"))]
    store = options.pop("store", StoreOptions(tokens_per_shard=20_000, val_fraction=0.1))
    return Recipe(str(out), options.pop("sources", sources), **{"tokenizer": "byte", "store": store, **FULL, **options})


@pytest.fixture
def run(tmp_path: Path, corpus: Path) -> Callable[..., Path]:
    """`run("out", workers=2, **options of the recipe)`: the store."""

    def made(
        out: str, *, workers: int = 1, raw: Path = corpus, overwrite: bool = False, engine: Any = None, **options: Any
    ) -> Path:
        settings = RunOptions(workers=workers, **options.pop("run", {}))
        prepare(recipe(tmp_path / out, raw, **options), overwrite=overwrite, options=settings, engine=engine)
        return tmp_path / out

    return made


@pytest.fixture
def recipe_file(tmp_path: Path, corpus: Path) -> Path:
    """The recipe of `whole` as a file, for other processes; its store will be `out` beside it."""
    sources = [{"name": path.stem, "paths": [str(path)], "fields": ["url"]} for path in sorted(corpus.glob("*.jsonl"))]
    store = {"tokens_per_shard": 20_000, "val_fraction": 0.1}
    values = {"out": str(tmp_path / "out"), "sources": sources, "tokenizer": "byte", "store": store, **FULL}
    (tmp_path / "recipe.yaml").write_text(json.dumps(values))  # JSON is YAML, too
    return tmp_path / "recipe.yaml"


def content(root: Path) -> dict[str, Any]:
    """Every file whose bytes are promised, and the rows of those whose rows are."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in PURE or path.name in ("manifest.json", "tokenizer.json", "funnel.json"):
            found[name] = path.read_bytes()
        elif path.suffix == ".parquet" and not name.startswith(".work"):
            found[name] = pq.read_table(path).to_pylist()
    return found


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> dict[str, Any]:
    """The content of an uninterrupted run by one process."""
    out = tmp_path_factory.mktemp("whole") / "store"
    prepare(recipe(out, corpus), options=RunOptions(workers=1))
    return content(out)


@pytest.fixture
def read() -> Callable[[Path], dict[str, Any]]:
    return content


@pytest.fixture
def make_search(tmp_path: Path, engine: InlineEngine) -> Callable[..., NearSearch]:
    """`make_search(batches, near, work, ...)`: the search among the documents of batches, each a unit, once signed."""

    def make(
        batches: Sequence[Documents], near: Near, work: str = "work", dropped: Sequence[Path] = (),
        priorities: Any = None, by: Any = engine,
    ) -> NearSearch:  # fmt: skip
        place = Workshop(by, tmp_path / work, Quiet())
        gone = tuple(Relation((path,), path.name) for path in dropped)
        jobs = []
        for documents in batches:
            number = documents.batch.column("doc")[0].as_py() >> 32
            texts = tmp_path / f"texts-{number}.parquet"
            # As a whole: a worker of a run that was ended may still have the one before mapped.
            pq.write_table(pa.Table.from_batches([documents.batch]), texts.with_suffix(".new"), row_group_size=50)
            texts.with_suffix(".new").replace(texts)
            jobs.append(SignJob(texts=texts, upstream="", dropped=gone, near=near, priorities=priorities or {},
                                number=number, folder=place.folder / "sign"))  # fmt: skip
        return NearSearch(place, near, jobs, place.complete(jobs, "signing"), gone)

    return make
