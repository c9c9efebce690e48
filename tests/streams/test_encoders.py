"""A tokenizer for many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from gristmill.streams import blocks
from gristmill.streams.blocks import Encoders
from gristmill.tokenize.tokenizer import load_tokenizer


def test_threads_that_encode_at_once_build_a_tokenizer_a_core_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PATIENCE_SECONDS", 60)
    monkeypatch.setattr(blocks, "_CORES", 1)
    encoders = Encoders(load_tokenizer("byte"))
    texts = pa.array(["one", "two"], pa.large_string())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: encoders.encode(texts)[0].tobytes(), range(200)))
    assert len({*found}) == 1 and encoders.made == 1


def test_a_thread_whose_turn_does_not_come_builds_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(blocks, "_CORES", 1)
    encoders = Encoders(load_tokenizer("byte"))
    encoders._idle.get()  # by a thread that a fork has left behind
    assert encoders.encode(pa.array(["one"], pa.large_string()))[0].tolist() == [*b"one", encoders.eos]
    assert encoders.made == 2
