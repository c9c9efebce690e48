"""A tokenizer for many threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from gristmill.streams import encoders as module
from gristmill.streams.encoders import Encoders
from gristmill.tokenize.tokenizer import load_tokenizer


def test_threads_that_encode_at_once_build_a_tokenizer_a_core_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 60)
    monkeypatch.setattr(module, "_CORES", 1)
    encoders = Encoders(load_tokenizer("byte"))
    texts = pa.array(["one", "two"], pa.large_string())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: encoders.encode(texts)[0].tobytes(), range(200)))
    assert len({*found}) == 1 and encoders.made == 1


def test_a_thread_whose_turn_does_not_come_builds_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(module, "_CORES", 1)
    encoders = Encoders(load_tokenizer("byte"))
    encoders._idle.get()  # by a thread that a fork has left behind
    assert encoders.encode(pa.array(["one"], pa.large_string()))[0].tolist() == [*b"one", encoders.eos]
    assert encoders.made == 2


def test_threads_wait_as_long_as_a_further_tokenizer_takes_before_one_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CORES", 2)
    encoders, texts = Encoders(load_tokenizer("byte")), pa.array(["one"], pa.large_string())
    only = encoders._idle.get()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(encoders.encode, texts)
        time.sleep(0.05)
        encoders._idle.put(only)
        waiting.result()
    assert encoders.made == 1 and encoders._waited > 0.02
    encoders._idle.get()
    monkeypatch.setattr(module, "_BUILDING_SECONDS", encoders._waited)  # it has been waited for long enough
    encoders.encode(texts)
    assert encoders.made == 2 and encoders._waited == 0


def test_streams_that_load_one_tokenizer_twice_share_its_encoder() -> None:
    first, second = load_tokenizer("byte"), load_tokenizer("byte")
    assert first is not second and module.encoders(first) is module.encoders(second)
    assert module.encoders(first) is not module.encoders(load_tokenizer("gpt2"))
