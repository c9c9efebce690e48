"""What `plan.simulate()` says of a run beside what the run does: a real S3 server behind a network of a given shape.

    python benchmarks/simulate.py                          # all cases; about seven minutes
    python benchmarks/simulate.py --only "one rank"
    python benchmarks/simulate.py --only "two ranks" --save  # into the results of an earlier run

Results go to benchmarks/results/simulate.json and simulate.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
from harness.client import BENCHMARKS
from harness.machine import facts, load
from harness.render import table
from shaped_proxy import Shape, ShapedProxy

sys.path.append(str(BENCHMARKS.parent / "tests"))
from s3_server import BUCKET, KEY, SECRET, Server

RESULTS = BENCHMARKS / "results"
SHARDS, TOKENS, SEQ_LEN = 8, 6_000_000, 1024
CACHE = 48_000_000  # half of the store
# Within what share the figures of a run must be met; stalls also where they are met within 1 % of the run's time.
ALLOWED = {"bytes": 0.02, "requests": 0.02, "first_batch_seconds": 0.1, "stalled_seconds": 0.1}
NO_STALL = 0.01


@dataclasses.dataclass(frozen=True)
class Case:
    """One run: what it reads, over which network, on how many ranks of one node, which may share a cache on disk.

    rounds: where one run differs much from the next, the median of so many is taken.
    """

    name: str
    bandwidth: float
    latency: float
    step_time: float
    steps: int
    batch_size: int = 64
    locality: tuple[int, int] | None = (256, 16)
    ranks: int = 1
    cache: int = 0
    rounds: int = 1

    def plan(self, store: str) -> gm.Plan:
        near = None if self.locality is None else gm.Locality(*self.locality)
        options = gm.PlanOptions(locality=near)
        return gm.Plan(gm.open(store), seq_len=SEQ_LEN, batch_size=self.batch_size, steps=self.steps, options=options)

    def simulated(self, store: str) -> dict[str, Any]:
        given = {"bandwidth": self.bandwidth, "latency": self.latency, "step_time": self.step_time}
        return self.plan(store).simulate({**given, "ranks": self.ranks, "cache": self.cache}).to_dict()


# Times of seconds and few requests: beside seven others on two cores a request takes the server up to 20 ms.
CASES = [
    Case("locality, one rank, bandwidth that suffices", 8e6, 0.1, 0.2, 60),
    Case("locality, one rank, bandwidth that does not", 4e6, 0.1, 0.01, 300),
    Case("locality, one rank, far away", 8e6, 0.5, 0.02, 300),
    Case("locality in small blocks, one rank", 6e6, 0.3, 0.02, 200, locality=(64, 16), rounds=5),
    Case("global shuffle, one rank", 8e6, 0.5, 0.5, 40, batch_size=16, locality=None),
    Case("global shuffle, one rank, step too quick", 8e6, 0.5, 0.05, 60, batch_size=16, locality=None),
    Case("locality, two ranks, bandwidth that suffices", 16e6, 0.1, 0.2, 60, ranks=2),
    Case("locality, two ranks, bandwidth that does not", 4e6, 0.1, 0.01, 200, ranks=2),
    Case("global shuffle, two ranks", 8e6, 0.8, 0.05, 60, batch_size=16, locality=None, ranks=2),
    Case("locality, two ranks that share a cache", 16e6, 0.1, 0.2, 60, ranks=2, cache=CACHE),
    Case("locality, two ranks that share a cache, step too quick", 4e6, 0.1, 0.01, 300, ranks=2, cache=CACHE),
]


def main() -> int:
    """Run all cases, write the results, and print the report; 1 when a figure is further off than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--save", action="store_true", help="put these cases into the results of an earlier run")
    given = parser.parse_args()
    only, machine = given.only, facts()
    with tempfile.TemporaryDirectory() as folder:
        results = _measure([case for case in CASES if only in case.name], Path(folder))
    if only and given.save:
        results = _among_others(results)
    report = _report(results, machine | {"load_after": load()})
    if given.save or not only:
        values = {"machine": machine, "cases": results}
        (RESULTS / "simulate.json").write_text(json.dumps(values, indent=1) + "\n")
        (RESULTS / "simulate.md").write_text(report)
    print(report)
    return int(any(not _within(result, name) for result in results for name in ALLOWED))


def _among_others(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These cases with all others of the last results, as they are listed above."""
    before = json.loads((RESULTS / "simulate.json").read_text())["cases"]
    known = {result["case"]["name"]: result for result in (*before, *results)}
    return [known[case.name] for case in CASES if case.name in known]


def _measure(cases: list[Case], folder: Path) -> list[dict[str, Any]]:
    local = _make_store(folder / "store")
    (folder / "s3").mkdir()
    server = Server(folder / "s3")
    try:
        with ShapedProxy(server.s3) as proxy:
            os.environ |= {"AWS_ENDPOINT_URL": proxy.address, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                           "AWS_REGION": "us-east-1"}  # fmt: skip
            _upload(folder / "store", server.s3)
            _run(cases[0], f"s3://{BUCKET}/store/train", proxy)  # what is only slow the first time
            return [_compared(case, local, f"s3://{BUCKET}/store/train", proxy) for case in cases]
    finally:
        server.stop()


def _make_store(path: Path) -> str:
    files, rng = [], np.random.default_rng(0)
    for i in range(SHARDS):
        tokens = rng.integers(0, 50_000, TOKENS).astype(np.uint16)
        tokens[599::600] = tokens[-1] = 50_256
        files.append(path.with_name(f"part-{i}.bin"))
        tokens.tofile(files[-1])
    gm.import_(files, out=path, tokenizer="gpt2", dtype="uint16")
    return str(path / "train")


def _upload(folder: Path, port: int) -> None:
    import obstore
    from obstore.store import S3Store

    bucket = S3Store(BUCKET, endpoint=f"http://127.0.0.1:{port}", access_key_id=KEY, secret_access_key=SECRET,
                     region="us-east-1", client_options={"allow_http": True})  # fmt: skip
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        obstore.put(bucket, f"{folder.name}/{path.relative_to(folder).as_posix()}", path)


def _compared(case: Case, local: str, store: str, proxy: ShapedProxy) -> dict[str, Any]:
    print(case.name, file=sys.stderr)
    simulated, runs = case.simulated(local), [_run(case, store, proxy) for _ in range(case.rounds)]
    real = {name: type(each)(statistics.median_low(run[name] for run in runs)) for name, each in runs[0].items()}
    told = {name: simulated[name] for name in real}
    return {"case": dataclasses.asdict(case), "simulated": told, "real": real, "runs": runs}


def _run(case: Case, store: str, proxy: ShapedProxy) -> dict[str, float]:
    """The figures of a run by a process a rank, from the moment at which all of them have opened the store."""
    context = multiprocessing.get_context("spawn")
    opened, stepped, told = context.Barrier(case.ranks + 1), context.Barrier(case.ranks), context.SimpleQueue()
    cache = tempfile.TemporaryDirectory()
    ranks = [context.Process(target=_rank, args=(case, rank, store, cache.name, opened, stepped, told))
             for rank in range(case.ranks)]  # fmt: skip
    proxy.begin(Shape())
    for process in ranks:
        process.start()
    opened.wait()
    proxy.begin(Shape(case.bandwidth, case.latency))
    opened.wait()
    found = [told.get() for _ in ranks]
    counts = proxy.counts()
    for process in ranks:
        process.join()
    cache.cleanup()
    first, stalled, seconds = (max(each[i] for each in found) for i in range(3))
    return {"bytes": counts.body_bytes, "requests": counts.requests, "first_batch_seconds": first,
            "stalled_seconds": stalled, "seconds": seconds}  # fmt: skip


def _rank(case: Case, rank: int, store: str, cache: str, opened: Barrier, stepped: Barrier, told: Any) -> None:
    """Take batches as a trainer does: all ranks begin a step together."""
    if case.cache:
        gm.storage("s3://", cache=cache, cache_bytes=case.cache)
    gm.Loader(gm.Plan(_tiny(), seq_len=16, batch_size=4), keys="labels").batch(0)  # what has to be imported
    plan = case.plan(store)
    opened.wait()
    opened.wait()
    began = asked = time.perf_counter()
    waits = []
    for _ in gm.Loader(plan, rank, case.ranks, keys="labels"):
        stepped.wait()
        waits.append(time.perf_counter() - asked)
        time.sleep(case.step_time)
        asked = time.perf_counter()
    told.put((waits[0], sum(waits[1:]), asked - began))


def _tiny() -> gm.Store:
    """A store of a few tokens on this machine."""
    from gristmill.testing import tiny_store

    return tiny_store(Path(tempfile.mkdtemp()))


def _off(result: dict[str, Any], name: str) -> float:
    """By what share of the real figure the simulated one differs."""
    real, simulated = result["real"][name], result["simulated"][name]
    return (simulated - real) / real if real else float(simulated != real)


def _within(result: dict[str, Any], name: str) -> bool:
    real = result["real"]
    nothing = NO_STALL * real["seconds"] if name == "stalled_seconds" else 0
    return abs(result["simulated"][name] - real[name]) <= max(ALLOWED[name] * real[name], nothing)


def _report(results: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    head = ["case", *(f"{name.replace('_', ' ')}: simulated / real" for name in ALLOWED)]
    rows = [[result["case"]["name"], *(_cell(result, name) for name in ALLOWED)] for result in results]
    lines = [
        "# What simulate says, and what a run does",
        "",
        _INTRODUCTION,
        "",
        *table(head, rows),
        "",
        "## Machine",
        "",
    ]
    return "\n".join([*lines, *(f"- {key.replace('_', ' ')}: {value}" for key, value in machine.items()), ""])


_INTRODUCTION = (
    "`plan.simulate()` over a copy of the store on disk, beside a run over the same store in SeaweedFS through "
    "`shaped_proxy.py`, which adds the latency and limits the bandwidth. A process a rank takes batches of 1,024 "
    "tokens with labels and sleeps for the step's time; ranks begin each step together. Bytes and requests are what "
    "the proxy counts from the moment at which the stores are open; the first batch is timed from there. What is "
    "further off than 2 % (bytes, requests) or 10 % (times; stalls also 1 % of the run's time) is marked. Where one "
    "run differs much from the next (a network that is just too slow), the real figure is the median of several."
)


def _cell(result: dict[str, Any], name: str) -> str:
    simulated, real = result["simulated"][name], result["real"][name]
    shown = f"{simulated:,.2f} / {real:,.2f}" if isinstance(simulated, float) else f"{simulated:,} / {real:,}"
    runs = [run[name] for run in result.get("runs", [result["real"]])]  # which results of before have not
    between = f"; {min(runs):,.2f} to {max(runs):,.2f} in {len(runs)} runs" if max(runs) > min(runs) else ""
    return f"{shown} ({_off(result, name):+.1%}{'' if _within(result, name) else ' **off**'}{between})"


if __name__ == "__main__":
    sys.exit(main())
