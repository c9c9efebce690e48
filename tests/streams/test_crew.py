"""Blocks made by processes of our own: the batches of threads, resumed and told alike; a process that dies is told."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import pickle
import random
import signal
import tarfile
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.engine.partner import Partner, PartnerEnded
from gristmill.streams.crew import _GONE, Crew, _share, mill_of

from .conftest import copied

pytestmark = pytest.mark.filterwarnings("error::ResourceWarning")


def shouted(document: Any) -> str:
    return str(document["text"]).upper()


def refuses(document: Any) -> str:
    if document["id"] == "1-30":
        raise ValueError("no such thing")
    return str(document["text"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("crew")
    for i in range(3):
        rows = ({"id": f"{i}-{j}", "text": f"Document {i}-{j}. " * (1 + (7 * j) % 11)} for j in range(60))
        (made / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def make(folder: Path, function: Any = shouted, **options: Any) -> Any:
    stream = gm.stream(f"{folder}/*.jsonl").map(function).filter("length", min_chars=30)
    return stream.tokenize("byte").pack(64).batch(6, seed=1, **options)


def ids(batches: Any) -> list[Any]:
    return [batch["input_ids"].tolist() for batch in batches]


@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (2, 0)])
def test_processes_give_the_batches_of_threads(folder: Path, workers: int, threads: int) -> None:
    with (
        make(folder, epochs=1).loader(threads=0) as plain,
        make(folder, epochs=1).loader(threads=threads, workers=workers) as crewed,
    ):
        assert ids(crewed) == ids(plain)
        assert crewed.stats()["dropped"] == plain.stats()["dropped"] and crewed.stats()["dropped"]


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad"])
def test_a_block_travels_in_few_arrays_and_is_the_same(folder: Path, cut: str) -> None:
    stream = gm.stream(f"{folder}/*.jsonl").filter("length", min_chars=30).tokenize("byte")
    block = next(mill_of(getattr(stream, cut)(64).batch(6, seed=1), 0).blocks(0, noted=False))
    buffers = list[pickle.PickleBuffer]()
    handed = pickle.dumps(block, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 2
    arrived = pickle.loads(handed, buffers=buffers)
    assert (arrived.turn, arrived.number, arrived.epoch, arrived.unit) == (0, 0, 0, block.unit)
    assert (arrived.ledger.facts, arrived.unread, arrived.after) == (block.ledger.facts, block.unread, (1, 0))
    columns = zip(
        (arrived.tokens, arrived.offsets, *(arrived.rows or ())),
        (block.tokens, block.offsets, *(block.rows or ())),
        strict=True,
    )
    for found, expected in columns:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def kept(document: Any) -> bool:
    return document["text"].startswith("keep")


@pytest.fixture(scope="module")
def patchy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tar of which some members are no texts here and there, and nothing but its beginning is kept."""
    folder = tmp_path_factory.mktemp("patchy")
    with tarfile.open(folder / "patchy.tar", "w") as tar:
        for i in range(1500):
            data = b"\xff bad" if 50 < i % 100 < 55 else (b"keep " if i < 150 else b"drop ") * (3000 + i % 2000)
            member = tarfile.TarInfo(f"{i:04d}.txt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return folder / "patchy.tar"


@pytest.mark.parametrize("rule", [kept, shouted])
def test_a_lane_that_moves_inside_a_turn_counts_nothing_twice_and_has_had_tokens_of_it(
    patchy: Path, monkeypatch: pytest.MonkeyPatch, rule: Any
) -> None:
    stream = gm.stream(patchy, text="txt", on_error="skip")
    stream = stream.filter(rule) if rule is kept else stream.map(rule)
    made, free = stream.tokenize("byte").chunk(1000).batch(1, shuffle=False), (4**i for i in itertools.count())
    monkeypatch.setattr(Partner, "left", property(lambda _: next(free)))  # whoever is asked first has least to do
    told = []
    for workers in (0, 2):
        with made.loader(threads=0, workers=workers) as loader:
            batches = copied(islice(loader, 2500))
            told.append((ids(batches), loader.stats()["unreadable"], loader.stats()["after"]))
    assert told[0] == told[1] and told[0][1] > 0


@pytest.mark.parametrize(("rows", "streams"), [(range(0, 8, 2), 1), (range(1), 4)])
def test_processes_begin_with_as_many_lanes_each(rows: range, streams: int) -> None:
    first = [dict.fromkeys(rows, (0, 0)) for _ in range(streams)]
    shares = [_share(first, number, 2) for number in range(2)]
    assert [sum(map(len, share)) for share in shares] == [2, 2]
    assert sorted(lane for share in shares for lanes in share for lane in lanes) == sorted([*rows] * streams)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of which a turn is several blocks: in tars these can be sought, in a packed file they cannot."""
    made = tmp_path_factory.mktemp("large")
    texts = [f"Document {i}. " * 2000 for i in range(700)]
    with gm.ShardWriter(f"{made}/%d.tar") as shards:
        for i, text in enumerate(texts):
            shards.write({"__key__": f"{i:03d}", "txt": text})
    rows = "".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts[:150]))
    (made / "packed.jsonl.gz").write_bytes(gzip.compress(rows.encode(), 1))
    return made


def test_a_lane_goes_on_in_any_process_where_nothing_is_read_twice(
    large: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = {"tars": gm.stream(f"{large}/*.tar", text="txt"), "packed": gm.stream(f"{large}/*.gz"),
           "plain": gm.stream(f"{folder}/*.jsonl").filter("length", min_chars=100)}  # fmt: skip
    mixed = gm.mix(
        {name: each.tokenize("byte").chunk(20_000) for name, each in cut.items()},
        {"tars": 0.7, "packed": 0.2, "plain": 0.1},
    ).batch(2, seed=3)
    moved, asked, chance = list[Any](), Partner.ask, random.Random(5)

    def noted(partner: Partner[Any], *question: Any, **heard: Any) -> Any:
        if question[2] not in (None, _GONE):
            moved.append(question)
        return asked(partner, *question, **heard)

    monkeypatch.setattr(Partner, "left", property(lambda _: chance.randrange(100)))
    monkeypatch.setattr(Partner, "ask", noted)
    with mixed.loader(threads=0) as plain, mixed.loader(threads=0, workers=2) as crewed:
        for ours, theirs in zip(islice(crewed, 600), plain, strict=False):
            np.testing.assert_array_equal(ours["input_ids"], theirs["input_ids"])
            assert crewed.state_dict() == plain.state_dict()
        told, expected = crewed.stats(), plain.stats()
        for figure in ("after", "dropped", "read_again", "tokens"):
            assert told[figure] == expected[figure]
        assert told["read_again"] == 0
    begun = {(k, lane) for k, lane, _ in moved}
    assert len(moved) > 2 * len(begun) and any(number for _, _, (_, number) in moved)


def test_a_state_goes_on_with_another_number_of_processes(folder: Path) -> None:
    expected = ids(islice(make(folder).loader(threads=0), 9))
    state = None
    for workers in (2, 0, 1):
        with make(folder).loader(workers=workers) as loader:
            if state:
                loader.load_state_dict(state)
            assert ids(islice(loader, 3)) == [expected.pop(0) for _ in range(3)]
            state = loader.state_dict()


def test_a_process_that_is_killed_is_told_and_iterating_again_goes_on(folder: Path) -> None:
    expected = ids(islice(make(folder).loader(threads=0), 2000))
    with make(folder).loader(workers=2) as loader:
        seen = ids(islice(loader, 2))
        assert loader._crew
        for partner in loader._crew._partners:
            os.kill(partner.process.pid, signal.SIGKILL)
        with pytest.raises(gm.EngineError, match=r"A worker process of the stream died.*fewer workers"):
            seen.extend(ids([batch])[0] for batch in loader)  # what they had made already comes first
        assert len(seen) < len(expected)
        seen += ids(islice(loader, len(expected) - len(seen)))
    assert seen == expected


def test_processes_end_when_a_loader_is_closed_and_nobody_waits_for_them(folder: Path) -> None:
    crew = Crew(make(folder), 1, False, [{0: (0, 0)}])
    (partner,) = crew._partners
    crew.close()
    with pytest.raises(PartnerEnded):
        next(crew.blocks(0, 0))
    partner.process.join(60)
    assert partner.process.exitcode == 0


def test_what_a_function_does_wrong_in_a_process_is_named(folder: Path) -> None:
    with make(folder, refuses, epochs=1).loader(workers=1) as loader, pytest.raises(gm.ConfigError, match="1-30"):
        list(loader)


def test_a_function_that_cannot_be_handed_over_is_refused(folder: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"workers=1 .*at the top of a module"):
        next(iter(make(folder, lambda document: document["text"]).loader(workers=1)))
