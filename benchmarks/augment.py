"""What augmentation costs: tokens a processor second of a plan and of a stream, with and without it.

    python benchmarks/augment.py [--rounds 7] [--megabytes 24]

A plan of 64 x 2,048 tokens with labels over 16 million tokens in documents of about 600, read without threads; a
stream of the English text of the curation benchmark as JSONL, gpt2, packed into 64 x 2,048, without threads. Cases take
turns, and ratios are taken within a round: what slows the machine down slows all. Results go to
benchmarks/results/augment.*.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
from corpus import english
from harness.machine import facts, load
from harness.render import table

HERE = Path(__file__).parent
DATA, RESULTS = HERE / "data" / "curate", HERE / "results"
ROWS, SEQ_LEN, STEPS, EOS = 64, 2048, 100, 50_256
IDS = {"prefix": 50_257, "middle": 50_258, "suffix": 50_259}
AUGMENT: dict[str, list[Any]] = {
    "nothing": [],
    "FIM, half of the documents": [gm.FIM(rate=0.5, **IDS)],
    "FIM by characters": [gm.FIM(rate=0.5, level="character", **IDS)],
    "span corruption": [gm.SpanCorruption(sentinels=range(50_257, 50_357))],
    "mask": [gm.Mask(token=50_257, vocab_size=50_257)],
    "noise": [gm.Noise(vocab_size=50_257)],
    "a function in Python": [lambda tokens, rng: tokens],
}
Batches = Callable[[], Iterator[Any]]


def plans(folder: Path) -> dict[str, Batches]:
    """Loaders of a plan, rewound."""
    rng = np.random.default_rng(0)
    tokens = np.minimum(rng.zipf(1.2, 16 << 20), EOS - 1).astype(np.uint16)
    tokens[rng.integers(0, len(tokens), len(tokens) // 600)] = EOS
    tokens.tofile(folder / "tokens.bin")
    store = gm.open(folder / "tokens.bin", dtype="uint16", eos=EOS)

    def loader(augment: list[Any]) -> Batches:
        plan = gm.Plan(store, seq_len=SEQ_LEN, batch_size=ROWS, steps=STEPS, options={"augment": augment})
        made = gm.Loader(plan, keys="labels", threads=0)

        def batches() -> Iterator[Any]:
            made.seek(0)
            return iter(made)

        return batches

    return {name: loader(augment) for name, augment in AUGMENT.items() if name != "FIM by characters"}


def streams(megabytes: int) -> dict[str, Batches]:
    """Streams from their beginning, an epoch each."""
    texts = gm.stream(english(DATA, megabytes).path).tokenize("gpt2")

    def loader(augment: list[Any]) -> Batches:
        stream = (texts.augment(*augment) if augment else texts).pack(SEQ_LEN).batch(ROWS, epochs=1)
        return lambda: iter(stream.loader(keys="labels", threads=0))

    return {name: loader(augment) for name, augment in AUGMENT.items()}


def rates(cases: Mapping[str, Batches], rounds: int) -> dict[str, dict[str, float]]:
    """Million tokens a processor second of each case, and how long it takes beside `nothing`: medians of rounds."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):  # the first compiles, and fills the page cache
        for name, batches in cases.items():
            began, tokens = time.process_time(), 0
            for batch in batches():
                tokens += batch["input_ids"].size
            if turn:
                found[name].append(tokens / 1e6 / (time.process_time() - began))
    return {
        name: {
            "mtok_per_cpu_second": statistics.median(each),
            "time_beside_nothing": statistics.median(a / b for a, b in zip(found["nothing"], each, strict=True)),
        }
        for name, each in found.items()
    }


def report(results: Mapping[str, Any]) -> str:
    """The tables."""
    lines = ["# What augmentation costs", "", str(__doc__).split("\n\n")[2].replace("\n", " ")]
    for kind in ("plan", "stream"):
        rows = [
            [name, f"{each['mtok_per_cpu_second']:,.0f}", f"{each['time_beside_nothing']:.2f}"]
            for name, each in results[kind].items()
        ]
        lines += ["", f"## A {kind}", "", *table(["augmentation", "Mtok a processor second", "time"], rows)]
    machine = (f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items())
    return "\n".join([*lines, "", "## Machine", "", *machine, ""])


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description="What augmentation costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=24, help="of text for the stream")
    options = parser.parse_args()
    machine = facts()
    with tempfile.TemporaryDirectory() as folder:
        measured = {
            "plan": rates(plans(Path(folder)), options.rounds),
            "stream": rates(streams(options.megabytes), options.rounds),
        }
    results = {**measured, "rounds": options.rounds, "machine": machine | {"load_after": load()}}
    (RESULTS / "augment.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "augment.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
