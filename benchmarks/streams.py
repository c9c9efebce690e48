"""Text to packed batches of gpt2 tokens, straight from files: beside the webdataset package and `datasets`.

    python benchmarks/streams.py [--rounds N] [--seconds S] [--filters with|without|none] [--add]

Needs `webdataset`, `datasets`, `datatrove` and torch, as tests/requirements.txt has them. Each figure comes from a
fresh process: what it delivers in some seconds, once it runs. Rounds take all contenders in turn, and ratios are made
within a round, so that what slows the machine down slows both. What a stream is of gigatoken alone, and what two
workers bring, is measured by turns of seconds in one process, since a shared machine changes its speed by half within a
round. Results go to benchmarks/results/streams.json and streams.md; about half an hour, and some minutes more the first
time, to fetch the text and to lay it out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from corpus import english
from harness.machine import facts, load
from harness.processes import cpu_seconds
from harness.render import table
from stream_parts import GROUP, SEQ_LEN, Ids, packed, parts

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "streams", HERE / "results"
# The text comes ten times, so that units have the size that they have in large corpora: 1 MiB.
MEGABYTES, FILES, TIMES = 30, 32, 10
# Filters leave a tenth of the rate: a run takes so many times as long, so that rows of several blocks are counted.
LONGER = 3
BATCH, SHUFFLE = 64, 1000
# What a stream has padded is asked for this often: a trainer would not ask after every batch of 3 ms.
STATS_EVERY = 8
# How often, and for how long at a time, a stream takes turns with gigatoken alone; and what both do before.
TURNS, TURN_SECONDS, READY_SECONDS = 12, 1.0, 1.5
# The same of a stream with workers and one without. Before each turn what workers have made ahead meanwhile is used up.
WORKERS, PAIRS, PAIR_SECONDS, REST_SECONDS = 2, 6, 2.0, 1.0

Contender = Callable[[int, bool, bool], Generator[int, None, None]]


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


# The contenders: each gives, for ever, how many tokens its next batch has, or its next few.


def bare(workers: int, filtered: bool, usual: bool) -> Generator[int, None, None]:
    """gigatoken alone over texts in memory, one by one, without a filter: no pipeline can be faster on one core."""
    from gigatoken.gigatoken_rs import load_hf_json

    from gristmill.tokenize.tokenizer import load_tokenizer

    texts = [row["text"] for row in english(DATA, MEGABYTES).documents()]
    encode = load_hf_json(load_tokenizer("gpt2").to_json()).encode
    while True:
        for at in range(0, len(texts), GROUP):
            yield sum(len(encode(text)) + 1 for text in texts[at : at + GROUP])  # with the end of a document


def gristmill(kind: str, **options: int) -> Contender:
    """A loader with these options: by default one with threads of its own."""

    def batches(workers: int, filtered: bool, usual: bool) -> Generator[int, None, None]:
        import gristmill as gm

        stream = gm.stream(str(DATA / kind))
        if filtered:
            stream = stream.filter("language", keep=["en"]).filter("gopher_repetition")
        rows = stream.tokenize("gpt2").pack(SEQ_LEN).batch(BATCH, seed=0)
        before = 0
        with rows.loader(workers=workers, **options) as loader:  # type: ignore[arg-type]
            for number, _ in enumerate(loader):
                if number % STATS_EVERY:
                    continue
                stats = loader.stats()
                whole = int(stats["tokens"]) - int(stats["padded_tokens"])  # type: ignore[call-overload]
                yield whole - before
                before = whole

    return batches


def webdataset(workers: int, filtered: bool, usual: bool) -> Generator[int, None, None]:
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


def datasets(workers: int, filtered: bool, usual: bool) -> Generator[int, None, None]:
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
_KINDS = {"gristmill, tars": "tar", "gristmill, JSONL": "jsonl"}
CONTENDERS: dict[str, tuple[Contender, bool]] = {
    BARE: (bare, False),
    **{name: (gristmill(kind, threads=0), False) for name, kind in _KINDS.items()},
    "webdataset, tiktoken": (webdataset, True),
    "webdataset with our tokenizer and rules": (webdataset, False),
    "datasets, tiktoken": (datasets, True),
    "datasets with our tokenizer and rules": (datasets, False),
}


def run(name: str, workers: int, filtered: bool, seconds: float) -> dict[str, float]:
    """Tokens a second, and tokens a processor second of all its processes, once it runs."""
    make, usual = CONTENDERS[name]
    first, batches = first_batch(make, workers, filtered, usual)
    warm = usual_warm = 0.0
    if name.startswith("gristmill"):
        batches.close()
        usual_warm, threaded = first_batch(gristmill(_KINDS[name]), workers, filtered, usual)
        threaded.close()
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
        "usual_warm": usual_warm,
    }


def in_turns(name: str) -> float:
    """What a stream without threads gives for each token of gigatoken alone in a processor second, over all turns."""
    ours, alone = gristmill(_KINDS[name], threads=0)(0, False, False), bare(0, False, False)
    for batches in (ours, alone):
        _spent(batches, READY_SECONDS)
    turns = np.array([(_spent(ours, TURN_SECONDS), _spent(alone, TURN_SECONDS)) for _ in range(TURNS)])
    (tokens, seconds), (others, their_seconds) = turns.sum(axis=0).tolist()
    return float(tokens / seconds / (others / their_seconds))


def workers_in_turns(name: str) -> float:
    """What a stream with two workers gives for each token of one without in a second, over all turns."""
    sides = [gristmill(_KINDS[name], threads=0)(workers, False, False) for workers in (0, WORKERS)]
    turns = np.array([[_rate(batches) for batches in sides] for _ in range(PAIRS)])
    none, some = turns.sum(axis=0).tolist()
    return float(some / none)


def _rate(batches: Iterator[int]) -> float:
    """Tokens a second, once what was made ahead is used up; then workers are let come to rest."""
    _spent(batches, REST_SECONDS)
    began = time.perf_counter()
    tokens, _ = _spent(batches, PAIR_SECONDS)
    took = time.perf_counter() - began
    time.sleep(REST_SECONDS)
    return tokens / took


def _spent(batches: Iterator[int], seconds: float) -> tuple[int, float]:
    """Tokens of some seconds, and the processor seconds that this process took for them."""
    tokens, began, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        tokens += next(batches)
    return tokens, time.process_time() - cpu


def first_batch(make: Contender, *asked: Any) -> tuple[float, Generator[int, None, None]]:
    """Seconds until a contender gives its first batch, and what gives the others."""
    batches = make(*asked)
    began = time.perf_counter()
    next(batches)
    return time.perf_counter() - began, batches


def settings() -> list[tuple[str, int, bool]]:
    wanted = [(name, workers, filtered) for filtered in (False, True) for name in CONTENDERS for workers in (0, 2)]
    return [(name, workers, filtered) for name, workers, filtered in wanted if name != BARE or not filtered]


def measure(rounds: int, seconds: float, filters: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each setting's runs, in turn, after those that there are."""
    found = found or [{"name": n, "workers": w, "filtered": f, "runs": []} for n, w, f in settings()]
    for number in range(rounds):
        for setting in found:
            if filters == ("without" if setting["filtered"] else "with"):
                continue
            print(f"round {number + 1}: {setting['name']}, {setting['workers']} workers", file=sys.stderr)
            setting["runs"].append(in_processes(setting, seconds * (LONGER if setting["filtered"] else 1)))
            print(f"    {setting['runs'][-1]}", file=sys.stderr)
    return found


def shares(rounds: int, against: str, found: dict[str, list[float]]) -> dict[str, list[float]]:
    """What each kind of stream gives in turns with another, a fresh process a round, after those that there are."""
    for number in range(rounds):
        for name in _KINDS:
            print(f"round {number + 1}: {name}, in turns with {against}", file=sys.stderr)
            command = [sys.executable, "-W", "ignore", __file__, "--turns", name, against]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
            print(f"    {found[name][-1]:.3f}", file=sys.stderr)
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
    slowest = {key: max(run[key] for run in runs) for key in ("first", "warm", "usual_warm")}
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


def judge(
    found: list[dict[str, Any]], shared: dict[str, list[float]], gained: dict[str, list[float]]
) -> list[dict[str, Any]]:
    """Ten times the peers, half of gigatoken alone on one core, and what workers bring."""
    targets = []
    for filtered in sorted({each["filtered"] for each in found if each["runs"]}):
        for peer in list(CONTENDERS)[3:]:
            ours = best(found, "gristmill, tars" if "webdataset" in peer else "gristmill, JSONL", filtered)
            times = ratio(found, ours, best(found, peer, filtered), "tokens_per_second")
            said = f"{peer}{', language and repetition filters' if filtered else ''}"
            usual = CONTENDERS[peer][1]
            targets.append(
                {"target": f"10 times {said}", "measured": times, "met": times >= 10}
                if usual
                else {"target": f"({said}: times as fast, no target)", "measured": times}
            )
    for name in list(CONTENDERS)[1:3]:
        alone = statistics.median(shared[name])
        apart = ratio(found, setting(found, name, 0, False), setting(found, BARE, 0, False), "tokens_per_cpu")
        targets += [
            {"target": f"{name}: half of {BARE}, a processor second, in turns", "measured": alone, "met": alone >= 0.5},
            {"target": f"({name}: the same by processes of their own, a round apart)", "measured": apart},
        ]
        gain = statistics.median(gained[name])
        apart = ratio(found, setting(found, name, WORKERS, False), setting(found, name, 0, False), "tokens_per_second")
        targets += [
            {"target": f"{name}: 2 workers 1.7 times none, in turns", "measured": gain, "met": gain >= 1.7},
            {"target": f"({name}: the same by processes of their own, a round apart)", "measured": apart},
        ]
        own = setting(found, name, 0, False)["runs"]
        usual, alone = (statistics.median(run[key] for run in own) for key in ("usual_warm", "warm"))
        targets += [
            {"target": f"{name}: first batch of a second loader under 1 s", "measured": usual, "met": usual < 1},
            {"target": f"({name}: the same without threads)", "measured": alone},
        ]
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
        if each["runs"]
    ]
    turns = {
        f"{name}, {said}": rounds
        for group, said in (("shares", f"of {BARE}"), ("gains", "two workers, of none"))
        for name, rounds in results[group].items()
    }
    shared = [[name, *(f"{share:.2f}" for share in rounds)] for name, rounds in turns.items()]
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
            "Gristmill's own, which has no threads here but where it says by default: then two. The filters "
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
                    "second time, by default s",
                ],
                rows,
            ),
            "",
            *([results["remark"], ""] if results["remark"] else []),
            "## Targets",
            "",
            "Ratios are medians of those within a round, each contender at its faster setting. The pipelines to be "
            "outrun are the peers' own, with the tokenizer and the filters that their users have. With ours inside of "
            "them most of their time is ours as well: such rows tell what is left of a pipeline, and are no target.",
            "",
            *table(["target", "measured", "met"], targets),
            "",
            "## In turns",
            "",
            f"Tokens a processor second of a stream without threads, for each of {BARE}: {TURNS} turns of "
            f"{TURN_SECONDS:g} s each in one process, added up. Tokens a second with two workers, for each of a stream "
            f"without: {PAIRS} turns of {PAIR_SECONDS:g} s, after what was made ahead was used up. A fresh process a "
            "round.",
            "",
            *table(
                ["stream", *(f"round {i + 1}" for i in range(max(map(len, shared)) - 1))],
                [row + [""] * (max(map(len, shared)) - len(row)) for row in shared],
            ),
            "",
            "## Machine and versions",
            "",
            *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
            *(f"- {name} {version(name)}" for name in ("gristmill", "gigatoken", "tiktoken", "webdataset", "datasets")),
            "",
        ]
    )


_FIGURES = {"tokens_per_second": 1e6, "tokens_per_cpu": 1e6, "first": 1.0, "warm": 1.0, "usual_warm": 1.0}


def _spread(each: dict[str, Any], key: str) -> str:
    values = [run[key] / _FIGURES[key] for run in each["runs"]]
    if not any(values):
        return ""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description="Compare streams of text with those of other libraries.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting runs")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a run is measured")
    parser.add_argument("--filters", choices=["with", "without", "none"],
                        help="only settings with filters, or without, or none: turns alone")  # fmt: skip
    parser.add_argument("--add", action="store_true", help="to the rounds of the results that there are")
    parser.add_argument("--remark", default="", help="a sentence for the report, such as what is of another day")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--turns", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        name, workers, filtered, seconds = options.task
        print(json.dumps(run(name, int(workers), filtered == "1", float(seconds))), flush=True)
    elif options.turns:
        name, against = options.turns
        print(json.dumps((in_turns if against == BARE else workers_in_turns)(name)), flush=True)
    if options.task or options.turns:
        os._exit(0)  # workers of torch and streams of `datasets` may hold an interpreter that ends by itself
    lay_out()
    machine = facts()
    before = json.loads((RESULTS / "streams.json").read_text()) if options.add else {}
    turns = options.rounds if options.filters != "with" else 0
    shared = shares(turns, BARE, before.get("shares", {}))
    gained = shares(turns, f"{WORKERS} workers", before.get("gains", {}))
    rounds = options.rounds if options.filters != "none" else 0
    found = measure(rounds, options.seconds, options.filters, before.get("settings", []))
    results = {"remark": options.remark, "settings": found, "shares": shared, "gains": gained,
               "targets": judge(found, shared, gained),
               "rounds": max(len(each["runs"]) for each in found),
               "seconds": options.seconds, "origin": english(DATA, MEGABYTES).origin,
               "machine": machine | {"load_after": load()}}  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "streams.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "streams.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
