"""Blocks made by processes of our own: the batches of threads, resumed and told alike; a process that dies is told."""

from __future__ import annotations

import json
import os
import pickle
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.engine.partner import PartnerEnded
from gristmill.streams.crew import Crew, mill_of

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
    assert len(buffers) == (2 if cut == "chunk" else 3)
    arrived = pickle.loads(handed, buffers=buffers)
    assert (arrived.turn, arrived.number, arrived.epoch, arrived.unit) == (0, 0, 0, block.unit)
    assert (arrived.ledger.facts, arrived.unread) == (block.ledger.facts, block.unread)
    columns = zip(
        (arrived.tokens, arrived.offsets, *(arrived.rows or ())),
        (block.tokens, block.offsets, *(block.rows or ())),
        strict=True,
    )
    for found, expected in columns:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


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
    crew = Crew(make(folder), 1, noted=False)
    (partner,) = crew._partners
    crew.close()
    with pytest.raises(PartnerEnded):
        crew.ask(0, 0, 0, 0).result()
    partner.process.join(60)
    assert partner.process.exitcode == 0


def test_what_a_function_does_wrong_in_a_process_is_named(folder: Path) -> None:
    with make(folder, refuses, epochs=1).loader(workers=1) as loader, pytest.raises(gm.ConfigError, match="1-30"):
        list(loader)


def test_a_function_that_cannot_be_handed_over_is_refused(folder: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"workers=1 .*at the top of a module"):
        next(iter(make(folder, lambda document: document["text"]).loader(workers=1)))
