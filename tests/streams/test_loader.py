"""Batches of streams: the same on any number of ranks and threads and after any restart; a document once an epoch."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

from .conftest import Files, assert_equal, bytes_stream, copied, joined, served_texts, taken

CUTS = ("chunk", "pack", "pad")
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens", "attention_mask")


def rich(folder: Path, cut: str) -> Any:
    """A stream with rules, functions and all keys."""
    texts = gm.stream(f"{folder}/*.jsonl").filter("length", min_chars=30).map(lambda row: row["text"].upper())
    return getattr(texts.tokenize("gpt2"), cut)(24).batch(12, seed=3)


@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_goes_on_from_every_step_on_any_number_of_ranks_and_threads(files: Files, cut: str) -> None:
    stream, steps = rich(files(count=2, rows=30, longest=20), cut), 20
    loader = stream.loader(keys=KEYS, threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, steps):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    for step, state in enumerate(states[:-3]):
        world, threads = 1 + step % 4, step % 3
        loaders = [stream.loader(rank, world, keys=KEYS, threads=threads) for rank in range(world)]
        for each in loaders:
            each.load_state_dict(json.loads(json.dumps(state)))
        parts = [taken(each, 3) for each in loaders]
        assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[step : step + 3])
        assert gm.merge_states([each.state_dict() for each in loaders]) == states[step + 3]
        for each in loaders:
            each.close(wait=True)


@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_that_ends_goes_on_to_its_end_from_every_step(files: Files, cut: str) -> None:
    stream = bytes_stream(files(count=2, rows=10, longest=9), cut).batch(3, seed=3, epochs=2)
    loader = stream.loader(threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in loader:
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    for step, state in enumerate(states):
        again = stream.loader(threads=step % 2)
        again.load_state_dict(state)
        assert_equal(copied(iter(again)), whole[step:])
        assert again.state_dict() == states[-1]


@pytest.mark.parametrize("cut", ["chunk", "pack"])
@pytest.mark.parametrize(("count", "rows", "lanes"), [(1, 40, 3), (3, 40, 8), (5, 3, 2), (2, 1, 16)])
def test_an_epoch_gives_every_document_once(files: Files, cut: str, count: int, rows: int, lanes: int) -> None:
    folder = files(count, rows, longest=9)
    stream = bytes_stream(folder, cut, seq_len=512 if cut == "pack" else 32).batch(lanes, seed=5, epochs=2)
    texts = served_texts(copied(iter(stream.loader(keys="attention_mask"))), lanes)
    written = [json.loads(line)["text"] for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert Counter(texts) == Counter(written * 2)


@pytest.mark.parametrize("cut", CUTS)
def test_arrays_are_those_of_a_loader_over_the_same_tokens(files: Files, tmp_path: Path, cut: str) -> None:
    """One lane, in the files' order: a store of the same documents in the same order gives the same rows."""
    folder = files(count=1, rows=25, longest=12)
    stream = bytes_stream(folder, cut, 64).batch(1, shuffle=False, epochs=1)
    recipe = {"out": str(tmp_path / "store"), "sources": [{"name": "data", "paths": [str(folder)]}], "clean": None,
              "dedup": [], "tokenizer": "byte", "store": {"val_fraction": 0.0}}  # fmt: skip
    gm.prepare(recipe, progress=False)
    store = gm.open(tmp_path / "store" / "train")
    if cut == "pack":
        gm.index(store, seq_len=64)
    plan = gm.Plan(store, seq_len=64, batch_size=1, options={"cut": cut, "shuffle": False, "drop_last": False})
    expected, found = (copied(iter(each)) for each in (gm.Loader(plan, keys=KEYS), stream.loader(keys=KEYS)))
    whole = len(expected)  # a plan leaves out the tail that fills no sequence, which it reports
    assert whole and len(found) - whole == (cut == "chunk")
    for one, other in zip(expected, found, strict=False):
        for key in one.keys() - {"sample_ids"}:
            assert np.array_equal(one[key], other[key]), key


def test_rows_within_a_unit_are_shuffled_and_held_units_too(files: Files) -> None:
    folder = files(count=4, rows=30, longest=2)

    def first(**options: Any) -> list[str]:
        batches = copied(
            iter(bytes_stream(folder, "pad", 64).batch(1, epochs=1, **options).loader(keys="attention_mask"))
        )
        return served_texts(batches, 1)

    plain = first(shuffle=False)
    assert plain == sorted(plain, key=lambda text: tuple(map(int, text[1 : text.index(">")].split("-"))))
    assert len({tuple(first(seed=seed)) for seed in (1, 2, 3)} | {tuple(plain)}) == 4
    files_of = [text[1] for text in first(seed=1, hold=4)]
    assert sorted(first(seed=1, hold=4)) == sorted(plain)
    assert len(set(files_of[:30])) > 1 and len({text[1] for text in first(seed=1)[:10]}) == 1


def test_padding_can_be_as_wide_as_the_longest_row(files: Files) -> None:
    stream = bytes_stream(files(), "pad", 400).batch(4, epochs=1)
    widths = []
    for batch in stream.loader(keys="attention_mask", pad_to_multiple_of=8):
        longest = int(batch["attention_mask"].sum(axis=1).max())
        widths.append(batch["input_ids"].shape[1])
        assert widths[-1] == min(-(-max(longest, 1) // 8) * 8, 400)
    assert len(set(widths)) > 1


def test_what_rules_drop_is_counted_with_examples(files: Files) -> None:
    stream = gm.stream(f"{files()}/*.jsonl").filter("length", min_chars=100).filter(_not_of_file_2)
    loader = stream.tokenize("byte").chunk(64).batch(4, epochs=1).loader(examples=2)
    served = sum(batch["loss_mask"].sum() for batch in loader)
    stats: Any = loader.stats()
    assert stats["after"]["read"][0] == 120 and stats["dropped"]["length"].keys() == {"too_few_chars"}
    left = 120 - sum(sum(reasons.values()) for reasons in stats["dropped"].values())
    assert stats["after"]["tokenize"][0] == left and served == stats["after"]["tokenize"][1] + left
    assert stats["tokens"] == served + stats["padded_tokens"]
    shown = Counter((row["rule"], row["reason"]) for row in loader.dropped())
    assert shown == {("length", "too_few_chars"): 2, ("function", "of file 2"): 2}
    assert all(len(str(row["text"])) < 100 for row in loader.dropped() if row["rule"] == "length")


def _not_of_file_2(document: dict[str, Any]) -> bool | str:
    return not document["id"].startswith("2-") or "of file 2"


def test_documents_that_cannot_be_read_are_an_error_or_named_and_counted(files: Files) -> None:
    folder = files(count=2, rows=5)
    with open(folder / "1.jsonl", "a") as file:
        file.write('{"text": 3}\n' + "no json\n" * 30)
    (folder / "2.jsonl").write_text("nothing but this\n")
    (folder / "3.jsonl").write_text("")
    with pytest.raises(gm.SourceError, match=r"[12]\.jsonl"):
        list(bytes_stream(folder).batch(2, epochs=1))
    stream = gm.stream(f"{folder}/*.jsonl", on_error="skip").tokenize("byte").chunk(32).batch(2, epochs=1)
    loader = stream.loader()
    list(loader)
    stats: Any = loader.stats()
    assert stats["unreadable"] == 32 and stats["after"]["read"][0] == 10 and stats["empty_files"] == 1
    assert len(stats["unreadable_first"]) == 5 and all(".jsonl" in name for name in stats["unreadable_first"])


def test_a_stream_whose_filters_leave_nothing_is_an_error_and_no_endless_search(files: Files) -> None:
    stream = gm.stream(f"{files()}/*.jsonl").filter("length", min_chars=10**6).tokenize("byte").pack(32)
    with pytest.raises(gm.SourceError, match="loosen the filters"):
        next(iter(stream.batch(4).loader()))
    loader = stream.batch(4, epochs=2).loader()
    with pytest.raises(gm.SourceError, match=r"No document .* is left \(length dropped 240\)"):
        list(loader)
    assert loader.stats()["dropped"] == {"length": {"too_few_chars": 240}}
    with pytest.warns(UserWarning, match=r"This rank has no rows: .*length dropped"):
        assert list(stream.batch(4, epochs=1).loader(1, 2)) == []


def test_a_function_that_raises_is_named_with_its_document_and_the_loader_can_go_on(files: Files) -> None:
    calm = False

    def nervous(document: dict[str, Any]) -> str:
        if document["id"] == "1-3" and not calm:
            raise KeyError("oh")
        return str(document["text"])

    stream = gm.stream(f"{files(count=2, rows=6)}/*.jsonl").map(nervous).tokenize("byte").pad(64)
    loader = stream.batch(2, epochs=1).loader(threads=2)
    with pytest.raises(gm.ConfigError, match=r"nervous failed on document '1-3' at line \d+ of .*KeyError"):
        list(loader)
    calm, before = True, loader.step
    assert len(list(loader)) + before == len(list(stream.batch(2, epochs=1)))


def test_a_loader_can_be_pickled_and_forked(files: Files) -> None:
    stream = bytes_stream(files())
    loader = stream.batch(4, seed=2).loader()
    before = taken(loader, 3)
    again = pickle.loads(pickle.dumps(loader))
    assert again.step == 3
    assert_equal(taken(again, 3), taken(loader, 3))
    assert_equal(taken(stream.batch(4, seed=2).loader(threads=0), 3), before)


_TRAINER = """
import json, os, sys, time, zlib
import gristmill as gm
folder, state, log, workers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
fim = gm.FIM(rate=0.5, prefix=300, middle=301, suffix=302)
texts = gm.stream(folder + "/*.jsonl").filter("length", min_chars=30)
stream = texts.tokenize("byte").augment(fim).pack(64).batch(4, seed=1)
loader = stream.loader(threads=workers)
if os.path.exists(state):
    loader.load_state_dict(json.load(open(state)))
for batch in loader:
    with open(log, "a") as file:
        file.write(f"{loader.step} {zlib.crc32(batch['input_ids'].tobytes())}\\n")
    with open(state + ".new", "w") as file:
        json.dump(loader.state_dict(), file)
    os.replace(state + ".new", state)
    if loader.step >= 60:
        break
    time.sleep(0.02)  # so that it is killed, and does not end before, on a machine with other work too
"""


def test_a_stream_that_is_killed_goes_on_to_the_same_batches(files: Files, tmp_path: Path) -> None:
    folder, state, log = files(rows=200), tmp_path / "state.json", tmp_path / "log"
    texts, fim = gm.stream(f"{folder}/*.jsonl"), gm.FIM(rate=0.5, prefix=300, middle=301, suffix=302)
    stream = texts.filter("length", min_chars=30).tokenize("byte").augment(fim).pack(64).batch(4, seed=1)
    expected = [
        f"{i + 1} {zlib.crc32(batch['input_ids'].tobytes())}" for i, batch in enumerate(taken(stream.loader(), 60))
    ]
    runs = 0
    while not log.exists() or not log.read_text().endswith(expected[-1] + "\n"):
        command = [sys.executable, "-c", _TRAINER, str(folder), str(state), str(log), str(runs % 3)]
        process = subprocess.Popen(command, env=os.environ)
        lines = len(log.read_text().splitlines()) if log.exists() else 0
        while process.poll() is None and runs < 3:
            if log.exists() and len(log.read_text().splitlines()) > lines + 10:
                process.send_signal(signal.SIGKILL)
                break
        process.wait()
        runs += 1
        assert runs < 6
    found = log.read_text().splitlines()
    assert runs > 2 and sorted(set(found), key=found.index) == expected


@pytest.mark.parametrize(("wrong", "said"), [
    ({"rank": 2, "world_size": 2}, "no rank 2"), ({"world_size": 3}, "multiple"), ({"threads": -1}, "threads"),
    ({"keys": "label"}, "labels"), ({"pad_to_multiple_of": 8}, "pad"), ({"max_docs": 0}, "max_docs"),
])  # fmt: skip
def test_wrong_options_are_refused_in_a_sentence(files: Files, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        bytes_stream(files()).batch(4).loader(**wrong)


def test_units_that_are_held_together_are_of_one_epoch(files: Files) -> None:
    folder = files(count=3, rows=20)
    loader = gm.stream(str(folder)).tokenize("byte").pad(400).batch(2, seed=0, epochs=3, hold=50).loader()
    served = Counter(
        (int(sample[1]), row[mask].tobytes())
        for batch in loader
        for sample, row, mask in zip(*(batch[key] for key in ("sample_ids", "input_ids", "loss_mask")), strict=True)
        if mask.any()
    )
    assert len(served) == served.total() == 3 * 60 and {epoch for epoch, _ in served} == {0, 1, 2}


def test_a_row_that_meets_no_document_says_which_source_and_what_dropped_them(files: Files) -> None:
    stream = gm.stream(str(files()), name="books").filter("length", min_chars=10_000).tokenize("byte").pad(64)
    with pytest.raises(gm.SourceError, match=r"no document of the source 'books' that is left \(length dropped 120\)"):
        next(iter(stream.batch(2).loader(threads=0)))
    with pytest.raises(gm.SourceError, match=r"no document of the source 'books' that is left \(length dropped \d+\)"):
        next(iter(stream.batch(2, hold=1_000_000).loader()))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_row_may_meet_no_document_for_long_where_there_are_some(tmp_path: Path, shuffle: bool) -> None:
    for i in range(12):
        rows = [{"id": f"{i}-{j}", "text": f"{'kept' if i == 4 else 'gone'} {j} " * 9} for j in range(10)]
        (tmp_path / f"{i:02d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = gm.stream(str(tmp_path)).filter(lambda row: row["text"].startswith("kept")).tokenize("byte").pad(256)
    for seed in range(3):
        stream = kept.batch(5, seed=seed, shuffle=shuffle)  # no row comes to the same files in each epoch
        batches = taken(stream.loader(keys="attention_mask", threads=0), 60)
        assert sum(len(served_texts([batch], 5)) for batch in batches) == 300


def test_in_the_files_order_a_row_that_comes_to_the_same_files_for_ever_is_told_of_those(tmp_path: Path) -> None:
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text("kept" if i else "gone")
    kept = gm.stream(str(tmp_path)).filter(lambda row: row["text"] == "kept").tokenize("byte").pad(8)
    with pytest.raises(gm.SourceError, match=r"Row 0 of the batch meets no document .* left \(function dropped 1\)"):
        next(iter(kept.batch(4, shuffle=False).loader(threads=0)))
    assert len(taken(kept.batch(4).loader(threads=0), 9)) == 9


@pytest.mark.parametrize("threads", [0, 2])
def test_a_batch_that_an_observer_kept_from_its_trainer_comes_again(files: Files, threads: int) -> None:
    class Interrupted:
        def __init__(self, step: int) -> None:
            self.step = step

        def served(self, step: int, tokens: int, waited: float) -> None:
            if step == self.step:
                self.step = -1
                raise KeyboardInterrupt

    stream = bytes_stream(files()).batch(4, seed=1)
    expected, loader = taken(stream.loader(), 12), stream.loader(threads=threads)
    loader.observe(Interrupted(7))
    found = taken(loader, 7)
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    again = stream.loader(threads=threads)
    again.load_state_dict(loader.state_dict())
    assert loader.step == again.step == 7
    assert_equal(found + taken(again, 5), expected)
    assert_equal(found + taken(loader, 5), expected)
