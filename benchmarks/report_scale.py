"""The report of a large store, and the comparison of two: how long each takes, and how much memory.

Stores are made from a seed, without a recipe: documents of 2 to 60 tokens with urls of 50,000 hosts, a third as many
dropped ones, and clusters of duplicates. The second store lacks one document in 50, has as many new ones, and as many
whose content changed. Making them is not measured. Memory is the peak of the process that makes the page.

    python benchmarks/report_scale.py                       10 million documents
    python benchmarks/report_scale.py --documents 100000
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.store.manifest import Manifest, ShardEntry
from gristmill.store.writer import shard_name, write_shard

HERE = Path(__file__).parent
PER_SHARD, VOCABULARY, HOSTS = 500_000, 50_257, 50_000
SOURCES = ("web", "books", "code")


def make_store(root: Path, documents: int, seed: int) -> Path:
    """A store whose first seed is 0; a later one differs from it in one document of 50, three ways."""
    (root / "train").mkdir(parents=True)
    shards = [_shard(root, number, first, min(PER_SHARD, documents - first), seed)
              for number, first in enumerate(range(0, documents, PER_SHARD))]  # fmt: skip
    _account(root, documents // 3)
    counts = {"documents": documents // 3, "bytes": 90 * documents // 3, "tokens": 30 * documents // 3}
    funnel = [
        {"stage": stage, "source": source, **counts} for stage in ("read", "length", "train") for source in SOURCES
    ]
    name = {"name": "none", "fingerprint": "none"}
    made = Manifest("uint16", VOCABULARY - 1, VOCABULARY, name, {"train": shards, "val": []}, funnel=funnel)
    made.save(root)
    return root


def _shard(root: Path, number: int, first: int, count: int, seed: int) -> ShardEntry:
    rng = np.random.default_rng(number)
    lengths = rng.integers(2, 61, count)
    tokens = rng.integers(0, VOCABULARY - 1, int(lengths.sum()), dtype=np.uint16)
    names, content = np.arange(first, first + count), rng.integers(0, 1 << 60, count)
    names[(names % 50 == 7)] += seed << 40
    content[(names % 50 == 13)] += seed
    hosts = rng.zipf(1.3, count) % HOSTS
    rows = pa.table({
        "id": pa.array([f"doc-{name:x}" for name in names.tolist()]),
        "source": pa.array([SOURCES[name % 3] for name in names.tolist()]),
        "path": pa.array(["made.jsonl"] * count),
        "content_hash": pa.array(content),
        "url": pa.array([f"https://host{host}.example/page" for host in hosts.tolist()]),
    })  # fmt: skip
    return write_shard(root, shard_name("train", number, "none"), "uint16", [(tokens, lengths, rows)])[0]


def _account(root: Path, dropped: int) -> None:
    """What was dropped, half of it in clusters around 1,000 documents."""
    numbers = np.arange(dropped)
    ids = pa.array([f"gone-{number:x}" for number in numbers.tolist()])
    rules = pa.array([("length", "near", "exact")[number % 3] for number in numbers.tolist()])
    rows = {"id": ids, "source": pa.array([SOURCES[number % 3] for number in numbers.tolist()]), "path": ["made.jsonl"]
            * dropped, "row": numbers, "rule": rules, "reason": rules, "value": numbers.astype(np.float64),
            "detail": pa.nulls(dropped, pa.string())}  # fmt: skip
    pq.write_table(pa.table(rows), root / "dropped.parquet")
    kept = pa.array([f"doc-{number % 1000:x}" for number in numbers.tolist()])
    gone = {"id": ids, "kept_id": kept, "similarity": np.full(dropped, 0.9), "rule": rules}
    pq.write_table(pa.table(gone).slice(0, dropped // 2), root / "duplicates.parquet")


def measured(*arguments: str) -> dict[str, float]:
    """Seconds and peak memory of a command in a process of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "gristmill", "report", *arguments]
    process = os.posix_spawn(sys.executable, command, os.environ)
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    cpu = used.ru_utime + used.ru_stime
    return {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_mb": round(used.ru_maxrss / 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "report_scale.json")
    chosen = parser.parse_args()
    (HERE / "data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HERE / "data") as folder:
        first, second = (make_store(Path(folder) / str(seed), chosen.documents, seed) for seed in (0, 1))
        page, changes = Path(folder) / "report.html", Path(folder) / "changes.html"
        found: dict[str, object] = {
            "documents": chosen.documents,
            "report": measured(str(first), "--out", str(page)),
            "changes": measured(str(second), "--vs", str(first), "--out", str(changes)),
            "page_kb": round(page.stat().st_size / 1000),
        }
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
