"""Start at any scale: how long a store of 10,000 shards, 10^12 tokens and 10^8 documents takes to begin.

The tokens are sparse files (2 TB by their sizes, nothing on disk); what lies beside them is real, sums included (about
5 GB, made once in benchmarks/data/scale). Each figure is taken in a fresh process, with imports counted apart.

    python benchmarks/scale.py                 make the store if need be, measure, write benchmarks/results/scale.*
    python benchmarks/scale.py --shards 200    the same, smaller
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
EOS = 50_256
TOKENS_PER_SHARD, DOCUMENTS_PER_SHARD = 10**8, 10**4
SEQ_LEN, BATCH_SIZE = 2048, 64
RESUME_STEP, FIND_STEP = 10**6, 10**7
LIMIT_SECONDS, LIMIT_MEGABYTES = 1.0, 300
ROUNDS = 5


def make_shard(root: str, shard: int) -> dict[str, Any]:
    """One shard with sparse tokens and real side files; returns its row of the manifest."""
    import pyarrow as pa

    from gristmill.store.blocks import BLOCK
    from gristmill.store.format import SUM_BLOCK
    from gristmill.store.writer import TokenSums, document_table, write_side_files

    rng = np.random.default_rng(shard)
    cuts = np.sort(rng.choice(TOKENS_PER_SHARD - 1, DOCUMENTS_PER_SHARD - 1, replace=False)) + 1
    lengths = np.diff(np.concatenate([[0], cuts, [TOKENS_PER_SHARD]])).astype(np.int64)
    rows = {
        "id": pa.array([f"doc-{shard:05d}-{row:05d}" for row in range(DOCUMENTS_PER_SHARD)]),
        "source": pa.array(["scale"] * DOCUMENTS_PER_SHARD),
    }
    name = f"train/shard-{shard:05d}.bin"
    sums = TokenSums(2 * TOKENS_PER_SHARD, *(sums_of_zeros(block) for block in (SUM_BLOCK, BLOCK)))
    entry = write_side_files(Path(root), name, lengths, document_table([pa.table(rows)], lengths), sums, "uint16")
    with open(Path(root) / name, "wb") as file:
        file.truncate(2 * TOKENS_PER_SHARD)
    return {**vars(entry), "checksum": f"{shard:032x}"}


@functools.cache
def sums_of_zeros(block: int) -> Any:
    """The sums of the tokens of a shard, block by block."""
    from gristmill.store.format import block_sums

    whole, rest = divmod(2 * TOKENS_PER_SHARD, block)
    sums = [block_sums(np.zeros(size, np.uint8), block) for size in (block, rest)]
    return np.concatenate([np.repeat(sums[0], whole), sums[1]])


def make_store(root: Path, shards: int) -> None:
    """The whole store, once; the manifest is written last, as ever."""
    from rich.progress import track

    from gristmill.store.manifest import Manifest, ShardEntry

    if (root / "manifest.json").exists():
        return
    (root / "train").mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        made = pool.map(make_shard, [str(root)] * shards, range(shards), chunksize=16)
        entries = [ShardEntry(**row) for row in track(made, "making the store", shards)]
    tokenizer = {"name": "none", "fingerprint": "none"}
    Manifest("uint16", EOS, EOS + 1, tokenizer, {"train": entries, "val": []}).save(root)


def anonymous_megabytes() -> float:
    """Anonymous resident memory of this process: what is not a page of a mapped file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


class Stages:
    """Seconds and anonymous memory after each stage of one process."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}
        self._at = time.perf_counter()

    def done(self, name: str) -> None:
        seconds = time.perf_counter() - self._at
        self.rows[name] = {"seconds": round(seconds, 4), "megabytes": round(anonymous_megabytes(), 1)}
        self._at = time.perf_counter()


def start(root: str, resume: bool) -> dict[str, Any]:
    """In a fresh process: import, open, plan, first batch; or instead of the first batch, resume and the next one."""
    stages = Stages()
    import gristmill as gm

    gm.Loader, gm.Plan, gm.open  # noqa: B018 - the names are imported when first used
    stages.done("import")
    store = gm.open(f"{root}/train")
    stages.done("open")
    plan = gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=0, steps=2 * FIND_STEP)
    stages.done("plan")
    loader = gm.Loader(plan, keys=("doc_ids",))
    if resume:
        state = json.loads(Path(root, "checkpoint.json").read_text())
        stages._at = time.perf_counter()
        loader.load_state_dict(state)
    batch = next(iter(loader))
    assert batch["doc_ids"].max() >= 0
    stages.done(f"resume at step {RESUME_STEP:,}" if resume else "first batch")
    loader.close()
    if not resume:
        loader.seek(RESUME_STEP)
        Path(root, "checkpoint.json").write_text(json.dumps(loader.state_dict()))
    return stages.rows


def find(root: str) -> dict[str, Any]:
    """In a fresh process: when is a document in the middle of the store seen, up to step 10^7?"""
    import gristmill as gm

    store = gm.open(f"{root}/train")
    plan = gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=0, steps=2 * FIND_STEP)
    document = f"doc-{store.num_shards // 2:05d}-04321"
    stages = Stages()
    seen = plan.find(document, until=FIND_STEP)
    stages.done(f"find up to step {FIND_STEP:,}")
    traced = {row.doc_id for row in plan.trace(seen[0].step)}
    stages.done("trace of a step")
    assert document in traced
    return stages.rows


def measured(root: Path, what: str) -> list[dict[str, Any]]:
    """The stages of several fresh processes, one after another."""
    command = [sys.executable, __file__, "--stage", what, "--root", str(root)]
    return [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(ROUNDS)]


def main() -> None:
    """Make, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--stage", choices=("start", "resume", "find"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    root = chosen.root or HERE / "data" / f"scale-{chosen.shards}"
    if chosen.stage:
        run = {
            "start": lambda: start(str(root), False),
            "resume": lambda: start(str(root), True),
            "find": lambda: find(str(root)),
        }
        print(json.dumps(run[chosen.stage]()))
        return
    make_store(root, chosen.shards)
    report(chosen.shards, {what: measured(root, what) for what in ("start", "resume", "find")})


def report(shards: int, runs: dict[str, list[dict[str, Any]]]) -> None:
    """The medians as JSON and Markdown, with the limits and whether they are kept."""
    rows = []
    for what, results in runs.items():
        for stage in results[0]:
            if what == "resume" and not stage.startswith("resume"):
                continue
            seconds = [result[stage]["seconds"] for result in results]
            megabytes = max(result[stage]["megabytes"] for result in results)
            rows.append(
                {
                    "stage": stage,
                    "median_seconds": float(np.median(seconds)),
                    "most_seconds": max(seconds),
                    "megabytes": megabytes,
                }
            )
    facts = {
        "shards": shards,
        "tokens": shards * TOKENS_PER_SHARD,
        "documents": shards * DOCUMENTS_PER_SHARD,
        "rounds": ROUNDS,
    }
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    (folder / "scale.json").write_text(json.dumps({**facts, "stages": rows}, indent=1) + "\n")
    (folder / "scale.md").write_text(markdown(facts, rows))
    print(markdown(facts, rows))


def markdown(facts: dict[str, int], rows: list[dict[str, Any]]) -> str:
    """The table of the results."""
    head = (
        f"{facts['shards']:,} shards, {facts['tokens']:.0e} tokens, {facts['documents']:.0e} documents, doc_ids on; "
        f"fresh processes, median of {facts['rounds']}.\n"
        f"Limits: {LIMIT_SECONDS:g} s a stage and {LIMIT_MEGABYTES} MB of anonymous resident memory.\n\n"
        "| stage | seconds (median) | (most) | anonymous MB | within limits |\n|---|---|---|---|---|\n"
    )
    lines = []
    for row in rows:
        kept = row["median_seconds"] < LIMIT_SECONDS and row["megabytes"] < LIMIT_MEGABYTES
        lines.append(
            f"| {row['stage']} | {row['median_seconds']:.3f} | {row['most_seconds']:.3f} | {row['megabytes']:.0f} "
            f"| {'yes' if kept else 'NO'} |"
        )
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
