"""How quickly a phrase is found, and how quickly `view` opens a store of 10^8 documents.

    python benchmarks/search.py                     # about five minutes, 3 GB of disk
    python benchmarks/search.py --tokens 50000000 --documents 1000000

Results go to benchmarks/results/search.json and search.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
from gristmill.store.manifest import load_manifest
from gristmill.store.reader import Store
from gristmill.store.search import search
from gristmill.view.pages import Pages
from gristmill.view.subject import open_subject
from harness.client import BENCHMARKS
from harness.machine import facts, load
from harness.render import table

ROUNDS = 5
SHARD_DOCUMENTS = 100_000
# Rare and common words, with common beginnings; a letter; and what is not there.
PHRASES = (
    "raise NotImplementedError",
    "in the order of",
    " the ",
    "import os",
    "e",
    "Gristmill turns raw text",
    "日本語",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=500_000_000, help="tokens that are searched")
    parser.add_argument("--documents", type=int, default=100_000_000, help="documents of the store that is opened")
    chosen = parser.parse_args()
    before = load()
    (BENCHMARKS / "data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BENCHMARKS / "data", prefix="search-") as folder:
        made = _library(Path(folder))
        searched = _searched(made, Path(folder), chosen.tokens)
        opened = _opened(Path(folder), chosen.documents)
    results = {"machine": {**facts(), "load_before": before}, "searched": searched, "opened": opened}
    _write(results)
    return 0


def _library(folder: Path) -> Path:
    """A store of the texts that every Python has: its own library, a file a document."""
    source = {"name": "library", "paths": f"{sysconfig.get_paths()['stdlib']}/*.py"}
    gm.prepare({"out": str(folder / "library"), "sources": [source], "tokenizer": "gpt2",
                "on_error": "skip"}, progress=False)  # fmt: skip
    return folder / "library"


def _searched(made: Path, folder: Path, tokens: int) -> list[dict[str, Any]]:
    """Each phrase over that store again and again, end to end in one file: larger than any cache."""
    store = gm.open(made)
    ids = store.tokens(0, store.num_tokens)
    with (folder / "long.bin").open("wb") as file:
        for _ in range(max(tokens // len(ids), 1)):
            ids.tofile(file)
    bare = gm.open(folder / "long.bin", dtype="uint16", eos=store.eos)
    long = Store(bare.files, replace(bare.facts, tokenizer=store.facts.tokenizer))
    assert long.num_documents  # boundaries are looked for once, before anything is timed
    return [_phrase(long, store, phrase) for phrase in PHRASES]


def _phrase(long: Store, store: Store, phrase: str) -> dict[str, Any]:
    found = search(long, phrase)  # which reads the file into memory, and compiles
    times = sorted(_timed(lambda: search(long, phrase)) for _ in range(ROUNDS))
    decoding = _timed(lambda: sum(document.text.count(phrase) for document in store))
    size = long.num_tokens * long.dtype.itemsize
    return {"phrase": phrase, "hits": found.hits, "gigabytes_per_second": size / statistics.median(times) / 1e9,
            "slowest": size / times[-1] / 1e9,
            "decoded_gigabytes_per_second": store.num_tokens * store.dtype.itemsize / decoding / 1e9}  # fmt: skip


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _opened(folder: Path, documents: int) -> dict[str, float]:
    """A store whose shards are links to one of 100,000 short documents: opened, browsed, and looked up in."""
    made = _shard(folder)
    shards = max(documents // SHARD_DOCUMENTS, 1)
    _linked(made, folder / "many", shards)
    last = shards * SHARD_DOCUMENTS - 1
    pages: list[Pages] = []
    times = {"open": _timed(lambda: pages.append(Pages(open_subject(str(folder / "many")))))}
    asked = {"overview": ("", {}), "documents in the middle": ("docs", {"first": str(last // 2)}),
             "last document": ("doc", {"n": str(last)}), "an id that is nowhere": ("find", {"id": "nobody"}),
             "dropped": ("dropped", {})}  # fmt: skip
    for name, (page, values) in asked.items():
        times[name] = _timed(lambda page=page, values=values: _checked(pages[0], page, values))  # type: ignore[misc]
    return {"documents": last + 1, "shards": shards, **times}


def _checked(pages: Pages, page: str, values: dict[str, str]) -> None:
    answer = pages.answer(page, values)
    assert answer.status == (404 if page == "find" else 200), answer.html[-300:]


def _shard(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 10_000, (SHARD_DOCUMENTS, 8)).tolist()
    rows = (json.dumps({"id": f"d{i}", "text": " ".join(map(str, row))}) + "\n" for i, row in enumerate(words))
    (folder / "short.jsonl").write_text("".join(rows))
    source = {"name": "short", "paths": str(folder / "short.jsonl")}
    layout = {"val_fraction": 0, "tokens_per_shard": 1 << 30}
    recipe = {"sources": [source], "tokenizer": "byte", "clean": "none", "dedup": [], "store": layout}
    gm.prepare({"out": str(folder / "short"), **recipe}, progress=False)
    return folder / "short"


def _linked(made: Path, out: Path, shards: int) -> None:
    """The manifest of a store names its only shard again and again, each time under another name."""
    manifest = load_manifest(made)
    (shard,) = manifest.splits["train"]
    (out / "train").mkdir(parents=True)
    entries = []
    for i in range(shards):
        for path in (made / "train").iterdir():
            os.link(path, out / "train" / path.name.replace("00000", f"{i:05d}"))
        entries.append(replace(shard, path=shard.path.replace("00000", f"{i:05d}")))
    shutil.copy(made / "tokenizer.json", out)
    replace(manifest, splits={**manifest.splits, "train": entries}).save(out)


def _write(results: dict[str, Any]) -> None:
    path = BENCHMARKS / "results" / "search.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(_markdown(results))
    print(_markdown(results))


def _markdown(results: dict[str, Any]) -> str:
    rows = [[f"`{each['phrase']}`", f"{each['hits']:,}", f"{each['gigabytes_per_second']:.2f}",
             f"{each['slowest']:.2f}", f"{each['decoded_gigabytes_per_second']:.3f}"]
            for each in results["searched"]]  # fmt: skip
    opened = results["opened"]
    times = [[name, f"{opened[name]:.3f}"] for name in opened if name not in ("documents", "shards")]
    lines = [
        "# A phrase in a store, and a store in a browser",
        "",
        "Exact phrases over the tokens of Python's library again and again, in the page cache, on one core: GB of "
        "tokens a second, the median and the slowest of five; and the same by decoding every document.",
        "",
        *table(["phrase", "hits", "GB/s", "slowest", "decoding, GB/s"], rows),
        "",
        f"A store of {opened['documents']:,} documents in {opened['shards']:,} shards, each page asked for once:",
        "",
        *table(["page", "seconds"], times),
        "",
        "## Machine",
        "",
        *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
