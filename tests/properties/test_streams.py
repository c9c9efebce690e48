"""Any files, lanes, ranks and options: each document once an epoch, and none depends on those that it is read with."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from ended_streams import served

SEQ_LEN = 96
LENGTHS = st.lists(st.lists(st.integers(0, 90), max_size=12), min_size=1, max_size=5).filter(any)
LANES = st.sampled_from([1, 2, 3, 4, 6, 12, 24])


def write(folder: Path, lengths: list[list[int]]) -> list[str]:
    """A file for each list, a document for each length; the texts."""
    texts = [[f"<{i}-{j}> ".ljust(length, "x") for j, length in enumerate(own)] for i, own in enumerate(lengths)]
    for i, own in enumerate(texts):
        rows = [json.dumps({"id": f"{i}-{j}", "text": text}) + "\n" for j, text in enumerate(own)]
        (folder / f"{i}.jsonl").write_text("".join(rows))
    return [text for own in texts for text in own]


def short(document: dict[str, Any]) -> bool:
    return len(document["text"]) < 80


def rows_of(batches: Any) -> list[str]:
    """Documents of padded rows of bytes."""
    found = []
    for batch in served(batches):
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            if mask.any():
                assert row[mask > 0][-1] == 256
                found.append(bytes(row[mask > 0][:-1].astype(np.uint8)).decode())
    return found


@settings(max_examples=60, deadline=None)
@given(
    lengths=LENGTHS,
    lanes=LANES,
    world=st.sampled_from([1, 2, 3, 4]),
    epochs=st.integers(1, 3),
    hold=st.integers(1, 4),
    seed=st.integers(0, 2**40),
    shuffle=st.booleans(),
    threads=st.integers(0, 2),
)
def test_every_document_that_the_steps_leave_is_served_once_an_epoch(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], lanes: int, world: int, epochs: int, hold: int,
    seed: int, shuffle: bool, threads: int,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("files")
    texts = [text.upper() for text in write(folder, lengths) if len(text) < 80]
    stream = gm.stream(f"{folder}/*.jsonl").filter(short).map(lambda row: row["text"].upper()).tokenize("byte")
    batches = stream.pad(SEQ_LEN).batch(lanes, seed=seed, shuffle=shuffle, epochs=epochs, hold=hold)
    ranks = world if lanes % world == 0 else 1
    loaders = [batches.loader(rank, ranks, keys="attention_mask", threads=threads) for rank in range(ranks)]
    assert Counter(text for loader in loaders for text in rows_of(loader)) == Counter(texts * epochs)


@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS, lanes=st.tuples(LANES, LANES), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_what_becomes_of_a_document_depends_on_none_that_it_is_read_with(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], lanes: tuple[int, int], seeds: tuple[int, int]
) -> None:
    """Other lanes, seeds and neighbours: the same documents are dropped for the same reasons, the rest have the same
    tokens."""
    folder, alone = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("alone")
    texts = write(folder, lengths)
    for i, text in enumerate(texts):
        (alone / f"{i}.jsonl").write_text(json.dumps({"id": f"{i}", "text": text}) + "\n")
    found = []
    for paths, rows, seed in ((folder, lanes[0], seeds[0]), (folder, lanes[1], seeds[1]), (alone, 1, 0)):
        stream = gm.stream(str(paths)).clean().filter("length", min_chars=8, max_chars=60).filter(short)
        loader = (
            stream.tokenize("byte")
            .pad(SEQ_LEN)
            .batch(rows, seed=seed, epochs=1)
            .loader(keys="attention_mask", examples=10**6)
        )
        served = Counter(rows_of(loader))
        found.append((served, Counter((row["rule"], row["reason"], row["text"]) for row in loader.dropped())))
    assert found[0] == found[1] == found[2]
