"""Streams of text from a bucket that is some milliseconds away: a real S3 server behind a network of a given latency.

    python benchmarks/far_streams.py [--rounds N] [--seconds S] [--against TREE]

The files of benchmarks/streams.py, and the same documents as Parquet. Each figure is of a fresh process,
contenders take turns in a round, medians are told. `--against` measures another checkout of Gristmill beside this one.
webdataset reads the same tars over http by curl, as it does by itself, one after the other; its tokenizer is ours, so
that what differs is how files are read. Server, network and clients share the cores of this machine, so that what the
network gives is bounded by these. Results go to benchmarks/results/far_streams.json and far_streams.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq

from bucket.server import BUCKET, bucket, client, reach
from harness.client import BENCHMARKS
from harness.machine import facts, load
from harness.render import table
from shaped_proxy import Shape, ShapedProxy
from stream_parts import GROUP, SEQ_LEN, packed, parts
from streams import BATCH, DATA, lay_out

RESULTS, KINDS = BENCHMARKS / "results", ("jsonl", "tar", "parquet")
LATENCIES = (0.0, 0.02, 0.05, 0.1)
# Batches that come before anything is counted: what is read ahead of the first ones is more than they have.
READY_SECONDS = 3.0
OURS, BEFORE, DISK, PEER = "gristmill", "gristmill, the other tree", "gristmill, from disk", "webdataset by curl"


def gristmill(kind: str, address: str) -> Iterator[int]:
    """Tokens of each batch, as a loader gives them that is told nothing."""
    import gristmill as gm

    with gm.stream(f"{address}/{kind}").tokenize("gpt2").pack(SEQ_LEN).batch(BATCH, seed=0).loader() as loader:
        for batch in loader:
            yield batch["input_ids"].size


def webdataset(kind: str, address: str) -> Iterator[int]:
    """The same of webdataset, over addresses that are signed for an hour."""
    import webdataset as wds

    store = client(os.environ["AWS_ENDPOINT_URL"])
    names = [f"far/{kind}/{path.name}" for path in files(kind)]
    urls = [obstore.sign(store, "GET", name, datetime.timedelta(hours=1)) for name in names]

    def rows(groups: Any) -> Iterator[Any]:
        texts = ([sample["txt"].decode() for sample in group] for group in groups)
        return packed(ids for each in texts for ids in parts(False, False).tokens(each))

    dataset = wds.WebDataset([f"pipe:curl -s '{url}'" for url in urls], resampled=True, shardshuffle=False)
    dataset = dataset.batched(GROUP, collation_fn=list).compose(rows).batched(BATCH, collation_fn=np.stack)
    for batch in wds.WebLoader(dataset, batch_size=None, num_workers=0):
        yield batch.size if isinstance(batch, np.ndarray) else batch.numel()


def files(kind: str) -> list[Path]:
    return sorted((DATA / kind).iterdir())


def lay_out_parquet() -> None:
    """The documents of the JSONL files, 100 in a row group, which is 1 MB."""
    (DATA / "parquet").mkdir(exist_ok=True)
    for path in files("jsonl"):
        with path.open() as lines:
            rows = pa.Table.from_pylist([json.loads(line) for line in lines])
        pq.write_table(rows, DATA / "parquet" / f"{path.stem}.parquet", row_group_size=100)


def run(name: str, kind: str, seconds: float) -> dict[str, float]:
    """Seconds to the first batch, and tokens a second once it runs, which a line says."""
    address = str(DATA) if name == DISK else f"s3://{BUCKET}/far"
    batches = (webdataset if name == PEER else gristmill)(kind, address)
    began = time.perf_counter()
    next(batches)
    first, tokens, began = time.perf_counter() - began, 0, time.perf_counter()
    while time.perf_counter() - began < READY_SECONDS:
        next(batches)
    print("ready", flush=True)
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        tokens += next(batches)
    return {"first": first, "rate": tokens / took, "tokens": tokens}


def measured(each: dict[str, Any], seconds: float, tree: str | None, proxy: ShapedProxy) -> dict[str, float]:
    """A run in a fresh process, with what passed the network meanwhile."""
    name, kind, shape = each["name"], each["kind"], Shape(latency=each["latency"])
    proxy.begin(shape)
    path = {"PYTHONPATH": str(Path(tree) / "src")} if name == BEFORE and tree else {}
    command = [sys.executable, "-W", "ignore", __file__, "--task", name, kind, "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | path) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        proxy.begin(shape)
        found: dict[str, float] = json.loads(process.stdout.readline())
        counts = proxy.counts()
    per = {"requests": counts.requests / found["tokens"] * 1e6, "fetched": counts.body_bytes / found["tokens"]}
    return found | per


def settings(against: str | None) -> list[dict[str, Any]]:
    """Who reads what, and how far away it is."""
    names = [OURS, *([BEFORE] if against else [])]
    far = [(name, kind, latency) for kind in KINDS for latency in LATENCIES for name in names]
    far += [(PEER, "tar", latency) for latency in LATENCIES]
    here = [(DISK, kind, 0.0) for kind in KINDS]
    return [{"name": name, "kind": kind, "latency": latency, "runs": []} for name, kind, latency in here + far]


def report(results: dict[str, Any]) -> str:
    """The results as markdown."""
    rows = []
    for each in results["settings"]:
        first, rate, requests, fetched = (
            statistics.median(run[key] for run in each["runs"]) for key in ("first", "rate", "requests", "fetched")
        )
        far = [f"{each['latency'] * 1e3:.0f}", f"{requests:.1f}", f"{fetched:.1f}"]
        rows.append([each["kind"], each["name"], *(far if each["name"] != DISK else [""] * 3),
                     f"{first:.2f}", f"{rate / 1e6:.1f}"])  # fmt: skip
    head = ["files", "reader", "ms to the bucket", "requests a Mtok", "bytes a token", "first batch s", "Mtok/s"]
    return "\n".join(
        [
            "# Streams from a bucket that is some milliseconds away",
            "",
            f"{len(files('jsonl'))} files of 9.5 MB of text, rows of {SEQ_LEN:,} gpt2 tokens, {BATCH} a batch; rounds: "
            f"{results['rounds']}, of {results['seconds']:g} s in fresh processes, which import and compile in their "
            "first batch, too. The server, the network and the reader share two cores: from so near a server some 50 "
            "to 100 MB/s are the most. webdataset has our tokenizer and reads tar after tar.",
            "",
            *table(head, rows),
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
            "",
        ]
    )


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description="Streams of text from a bucket that is some milliseconds away.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting runs")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a run is measured")
    parser.add_argument("--against", metavar="TREE", help="another checkout of Gristmill to measure beside this one")
    parser.add_argument("--only", choices=KINDS, help="files of one kind, and no results are written")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(run(*options.task, options.seconds)), flush=True)
        os._exit(0)
    lay_out()
    lay_out_parquet()
    machine = facts()
    found = [each for each in settings(options.against) if options.only in (None, each["kind"])]
    with bucket(DATA / "server") as there, ShapedProxy(there.port) as proxy:
        for kind in KINDS:
            there.add(f"far/{kind}", files(kind), DATA / kind)
        reach(proxy.address)
        for number in range(options.rounds):
            for each in found:
                each["runs"].append(measured(each, options.seconds, options.against, proxy))
                print(f"round {number + 1}: {each}", file=sys.stderr)
    if options.only:
        return
    results = {"settings": found, "rounds": options.rounds, "seconds": options.seconds,
               "machine": machine | {"load_after": load()}}  # fmt: skip
    (RESULTS / "far_streams.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "far_streams.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
