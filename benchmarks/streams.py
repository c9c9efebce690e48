"""Text to packed batches of gpt2 tokens, straight from files: beside the webdataset package and `datasets`.

    python benchmarks/streams.py [--rounds N] [--seconds S]

Needs `webdataset`, `datasets`, `datatrove` and torch, as tests/requirements.txt has them. Each figure comes from a
fresh process: what it delivers in some seconds, once it runs. Rounds take all contenders in turn, and ratios are made
within a round, so that what slows the machine down slows both. Results go to benchmarks/results/streams.json and
streams.md; about half an hour, and some minutes more the first time, to fetch the text and to lay it out.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpus import english
from harness.machine import facts, load
from harness.processes import cpu_seconds
from harness.render import table

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "streams", HERE / "results"
# The text comes ten times, so that units have the size that they have in large corpora: 1 MiB.
MEGABYTES, FILES, TIMES = 30, 32, 10
# Filters leave a tenth of the rate: a run takes so many times as long, so that rows of several blocks are counted.
LONGER = 3
SEQ_LEN, BATCH, SHUFFLE, GROUP = 2048, 64, 1000, 256
EOS = 50_256

Ids = npt.NDArray[np.integer[Any]]
Encode = Callable[[list[str]], list[Ids]]
Judge = Callable[[list[str]], list[bool]]
Contender = Callable[[int, bool, bool], Generator[int]]


def lay_out() -> None:
    """The same documents as 32 JSONL files and as 32 tars with a member .txt each, 9.5 MB a file."""
    import gristmill as gm

    if (DATA / "made").exists():
        return
    documents = english(DATA, MEGABYTES).documents()
    for kind in ("jsonl", "tar"):
        (DATA / kind).mkdir(exist_ok=True)
    for number in range(FILES):
        texts = [row["text"] for row in documents[number::FILES]] * TIMES
        lines = (
            json.dumps({"id": f"{number}-{i}", "text": text}, ensure_ascii=False) + "\n" for i, text in enumerate(texts)
        )
        (DATA / "jsonl" / f"{number:03d}.jsonl").write_text("".join(lines))
        with gm.ShardWriter(DATA / "tar" / f"{number:03d}-%d.tar", overwrite=True) as shards:
            for i, text in enumerate(texts):
                shards.write({"__key__": f"{i:06d}", "txt": text})
    (DATA / "made").touch()


# What the peers are given: a tokenizer and filters, in the forms that their users have, and in ours.


def tiktoken_encoder() -> Encode:
    """A document at a time."""
    from gristmill.tokenize.tokenizer import load_tokenizer

    encoding = load_tokenizer("gpt2", backend="tiktoken")._ready_encoder()._encoding  # type: ignore[attr-defined]
    return lambda texts: [np.array([*encoding.encode_ordinary(text), EOS], np.uint16) for text in texts]


def gigatoken_encoder() -> Encode:
    """Many documents at once."""
    from gristmill.tokenize.tokenizer import append_eos, load_tokenizer

    tokenizer = load_tokenizer("gpt2")

    def encode(texts: list[str]) -> list[Ids]:
        ids, offsets = append_eos(*tokenizer.encode_batch(texts), EOS)
        return np.split(ids, offsets[1:-1])

    return encode


def our_rule(name: str, **options: object) -> Judge:
    import pyarrow as pa

    from gristmill.curate.documents import Documents
    from gristmill.curate.rules import make_rule

    rule = make_rule(name, options)

    def judge(texts: list[str]) -> list[bool]:
        documents = Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
        return [bool(code < 0) for code in rule.judge(documents).codes]

    return judge


def datatrove_repetition() -> Judge:
    from datatrove.data import Document
    from datatrove.pipeline.filters import GopherRepetitionFilter

    rule = GopherRepetitionFilter()
    return lambda texts: [rule.filter(Document(text, "")) is True for text in texts]


class Parts(NamedTuple):
    """What a pipeline of a peer is made of, and how many documents it hands over at once."""

    encode: Encode
    judges: Sequence[Judge]
    group: int

    def tokens(self, texts: list[str]) -> list[Ids]:
        for judge in self.judges:
            texts = [text for text, kept in zip(texts, judge(texts), strict=True) if kept] if texts else []
        return self.encode(texts) if texts else []


@functools.cache
def parts(usual: bool, filtered: bool) -> Parts:
    """`usual`: tiktoken and datatrove, a document at a time, and our language model, which they lack.

    Made in the process that uses them, since their threads do not survive a fork.
    """
    language = [our_rule("language", keep=["en"])] if filtered else []
    if usual:
        return Parts(tiktoken_encoder(), [*language, datatrove_repetition()] if filtered else [], 1)
    repetition = [our_rule("gopher_repetition")] if filtered else []
    return Parts(gigatoken_encoder(), [*language, *repetition], GROUP)


def packed(documents: Iterable[Ids]) -> Iterator[Ids]:
    """Rows of SEQ_LEN tokens, documents end to end."""
    held: list[Ids] = []
    count = 0
    for ids in documents:
        held.append(ids)
        count += len(ids)
        if count >= 64 * SEQ_LEN:
            flat = np.concatenate(held).astype(np.int64)
            whole = len(flat) // SEQ_LEN * SEQ_LEN
            yield from flat[:whole].reshape(-1, SEQ_LEN)
            held, count = [flat[whole:]], len(flat) - whole


# The contenders: each gives, for ever, how many tokens its next batch has.


def bare(workers: int, filtered: bool, usual: bool) -> Generator[int]:
    """gigatoken alone over texts in memory, without a filter: no pipeline can be faster on one core."""
    texts = [row["text"] for row in english(DATA, MEGABYTES).documents()]
    encode = gigatoken_encoder()
    while True:
        for at in range(0, len(texts), GROUP):
            yield sum(map(len, encode(texts[at : at + GROUP])))


def gristmill(kind: str) -> Contender:
    def batches(workers: int, filtered: bool, usual: bool) -> Generator[int]:
        import gristmill as gm

        stream = gm.stream(str(DATA / kind))
        if filtered:
            stream = stream.filter("language", keep=["en"]).filter("gopher_repetition")
        rows = stream.tokenize("gpt2").pack(SEQ_LEN).batch(BATCH, seed=0)
        before = 0
        with rows.loader(threads=0, workers=workers) as loader:
            for _ in loader:
                stats = loader.stats()
                whole = int(stats["tokens"]) - int(stats["padded_tokens"])  # type: ignore[call-overload]
                yield whole - before
                before = whole

    return batches


def webdataset(workers: int, filtered: bool, usual: bool) -> Generator[int]:
    import webdataset as wds

    group = 1 if usual else GROUP
    urls = [str(path) for path in sorted((DATA / "tar").iterdir())]

    def rows(groups: Iterable[list[dict[str, bytes]]]) -> Iterator[Ids]:
        return packed(
            ids
            for group in groups
            for ids in parts(usual, filtered).tokens([sample["txt"].decode() for sample in group])
        )

    dataset = wds.WebDataset(urls, resampled=True, shardshuffle=False).shuffle(SHUFFLE)
    dataset = dataset.batched(group, collation_fn=list).compose(rows).batched(BATCH, collation_fn=np.stack)
    for batch in wds.WebLoader(dataset, batch_size=None, num_workers=workers):
        yield batch.size if isinstance(batch, np.ndarray) else batch.numel()


def datasets(workers: int, filtered: bool, usual: bool) -> Generator[int]:
    import datasets as hf
    from torch.utils.data import DataLoader

    def rows(batch: dict[str, list[str]]) -> dict[str, list[Ids]]:
        texts, made = batch["text"], parts(usual, filtered)
        groups = (texts[at : at + made.group] for at in range(0, len(texts), made.group))
        flat = np.concatenate([np.empty(0, np.int64), *(ids for group in groups for ids in made.tokens(group))])
        return {"input_ids": list(flat[: len(flat) // SEQ_LEN * SEQ_LEN].astype(np.int64).reshape(-1, SEQ_LEN))}

    paths = [str(path) for path in sorted((DATA / "jsonl").iterdir())]
    dataset = hf.load_dataset("json", data_files=paths, split="train", streaming=True).shuffle(
        seed=0, buffer_size=SHUFFLE
    )
    dataset = dataset.map(rows, batched=True, batch_size=SHUFFLE, remove_columns=["id", "text"])
    loader = DataLoader(dataset.with_format("numpy"), batch_size=BATCH, num_workers=workers, collate_fn=_stacked)
    while True:
        for batch in loader:
            yield batch.size


def _stacked(rows: list[dict[str, Ids]]) -> Ids:
    return np.stack([row["input_ids"] for row in rows])


BARE = "gigatoken alone"
CONTENDERS: dict[str, tuple[Contender, bool]] = {
    BARE: (bare, False),
    "gristmill, tars": (gristmill("tar"), False),
    "gristmill, JSONL": (gristmill("jsonl"), False),
    "webdataset, tiktoken": (webdataset, True),
    "webdataset with our tokenizer and rules": (webdataset, False),
    "datasets, tiktoken": (datasets, True),
    "datasets with our tokenizer and rules": (datasets, False),
}


def run(name: str, workers: int, filtered: bool, seconds: float) -> dict[str, float]:
    """Tokens a second, and tokens a processor second of all its processes, once it runs."""
    make, usual = CONTENDERS[name]
    first, batches = first_batch(make, workers, filtered, usual)
    batches.close()
    warm, batches = first_batch(make, workers, filtered, usual)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds / 2:
        next(batches)
    began, cpu, tokens = time.perf_counter(), cpu_seconds(os.getpid()), 0
    while (took := time.perf_counter() - began) < seconds:
        tokens += next(batches)
    return {
        "tokens_per_second": tokens / took,
        "tokens_per_cpu": tokens / (cpu_seconds(os.getpid()) - cpu),
        "first": first,
        "warm": warm,
    }


def first_batch(make: Contender, *asked: Any) -> tuple[float, Generator[int]]:
    """Seconds until a contender gives its first batch, and what gives the others."""
    batches = make(*asked)
    began = time.perf_counter()
    next(batches)
    return time.perf_counter() - began, batches


def settings() -> list[tuple[str, int, bool]]:
    wanted = [(name, workers, filtered) for filtered in (False, True) for name in CONTENDERS for workers in (0, 2)]
    return [(name, workers, filtered) for name, workers, filtered in wanted if name != BARE or not filtered]


def measure(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Each setting's runs, in turn."""
    found: list[dict[str, Any]] = [{"name": n, "workers": w, "filtered": f, "runs": []} for n, w, f in settings()]
    for number in range(rounds):
        for setting in found:
            print(f"round {number + 1}: {setting['name']}, {setting['workers']} workers", file=sys.stderr)
            setting["runs"].append(in_processes(setting, seconds * (LONGER if setting["filtered"] else 1)))
            print(f"    {setting['runs'][-1]}", file=sys.stderr)
    return found


def in_processes(setting: dict[str, Any], seconds: float) -> dict[str, float]:
    """A run in a fresh process; of gigatoken alone one for each worker at once, which shows what the machine gives."""
    task = [setting["name"], str(setting["workers"]), str(int(setting["filtered"])), str(seconds)]
    command = [sys.executable, "-W", "ignore", __file__, "--task", *task]
    count = max(setting["workers"], 1) if setting["name"] == BARE else 1
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    runs = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    rates = [run["tokens_per_second"] for run in runs]
    cpu = sum(rates) / sum(rate / run["tokens_per_cpu"] for rate, run in zip(rates, runs, strict=True))
    slowest = {key: max(run[key] for run in runs) for key in ("first", "warm")}
    return {"tokens_per_second": sum(rates), "tokens_per_cpu": cpu, **slowest}


def ratio(found: list[dict[str, Any]], one: dict[str, Any], other: dict[str, Any], figure: str) -> float:
    """The median over rounds of what one has for each of the other's, within a round."""
    return statistics.median(a[figure] / b[figure] for a, b in zip(one["runs"], other["runs"], strict=True))


def best(found: list[dict[str, Any]], name: str, filtered: bool) -> dict[str, Any]:
    """The faster of a contender's settings."""
    own = [each for each in found if each["name"] == name and each["filtered"] == filtered]
    return max(own, key=lambda each: statistics.median(run["tokens_per_second"] for run in each["runs"]))


def setting(found: list[dict[str, Any]], name: str, workers: int, filtered: bool) -> dict[str, Any]:
    return next(
        each for each in found if (each["name"], each["workers"], each["filtered"]) == (name, workers, filtered)
    )


def judge(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ten times the peers, half of gigatoken alone on one core, and what workers bring."""
    targets = []
    for filtered in (False, True):
        for peer in list(CONTENDERS)[3:]:
            ours = best(found, "gristmill, tars" if "webdataset" in peer else "gristmill, JSONL", filtered)
            times = ratio(found, ours, best(found, peer, filtered), "tokens_per_second")
            said = f"10 times {peer}{', language and repetition filters' if filtered else ''}"
            targets.append({"target": said, "measured": times, "met": times >= 10})
    for name in list(CONTENDERS)[1:3]:
        alone = ratio(found, setting(found, name, 0, False), setting(found, BARE, 0, False), "tokens_per_cpu")
        targets.append(
            {"target": f"{name}: half of {BARE}, a processor second", "measured": alone, "met": alone >= 0.5}
        )
        gain = ratio(found, setting(found, name, 2, False), setting(found, name, 0, False), "tokens_per_second")
        targets.append({"target": f"{name}: 2 workers 1.7 times none", "measured": gain, "met": gain >= 1.7})
    most = ratio(found, setting(found, BARE, 2, False), setting(found, BARE, 0, False), "tokens_per_second")
    return [*targets, {"target": f"(two of {BARE} at once, which share nothing, against one)", "measured": most}]


def report(results: dict[str, Any]) -> str:
    """The results as markdown."""
    rows = [
        [
            each["name"],
            str(each["workers"]),
            "yes" if each["filtered"] else "",
            *(_spread(each, key) for key in _FIGURES),
        ]
        for each in results["settings"]
    ]
    answers = {True: "yes", False: "**no**", None: ""}
    targets = [[t["target"], f"{t['measured']:.2f}", answers[t.get("met")]] for t in results["targets"]]
    return "\n".join(
        [
            "# Streams: text to packed batches of gpt2 tokens",
            "",
            f"{MEGABYTES} MB of English ({results['origin']}), {TIMES} times in {FILES} files, read from the "
            f"page cache over and over; rows of {SEQ_LEN:,} tokens, {BATCH} a batch, padding not counted. Rounds: "
            f"{results['rounds']}, of {results['seconds']:g} s ({LONGER} times that with filters) in fresh processes; "
            "medians, with the lowest and the highest in brackets. `workers` are processes: of torch's DataLoader, of "
            "Gristmill's own. The filters "
            "are `language` (English) and `gopher_repetition`; peers with tiktoken have datatrove's repetition filter, "
            "a document at a time. The peers pack documents end to end, Gristmill best-fit.",
            "",
            *table(
                [
                    "contender",
                    "workers",
                    "filters",
                    "Mtok/s",
                    "Mtok a processor second",
                    "first batch s",
                    "second time s",
                ],
                rows,
            ),
            "",
            "## Targets",
            "",
            "Ratios are medians of those within a round, each contender at its faster setting.",
            "",
            *table(["target", "measured", "met"], targets),
            "",
            "## Machine and versions",
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
            *(f"- {name} {version(name)}" for name in ("gristmill", "gigatoken", "tiktoken", "webdataset", "datasets")),
            "",
        ]
    )


_FIGURES = {"tokens_per_second": 1e6, "tokens_per_cpu": 1e6, "first": 1.0, "warm": 1.0}


def _spread(each: dict[str, Any], key: str) -> str:
    values = [run[key] / _FIGURES[key] for run in each["runs"]]
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description="Compare streams of text with those of other libraries.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting runs")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a run is measured")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        name, workers, filtered, seconds = options.task
        print(json.dumps(run(name, int(workers), filtered == "1", float(seconds))), flush=True)
        os._exit(0)  # workers of torch and streams of `datasets` may hold an interpreter that ends by itself
    lay_out()
    machine = facts()
    found = measure(options.rounds, options.seconds)
    results = {"settings": found, "targets": judge(found), "rounds": options.rounds, "seconds": options.seconds,
               "origin": english(DATA, MEGABYTES).origin, "machine": machine | {"load_after": load()}}  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "streams.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "streams.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
