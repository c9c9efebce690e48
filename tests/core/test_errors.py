"""Errors say who must act, and carry the arguments that they speak of."""

from __future__ import annotations

import pickle

import pytest

from gristmill.core.errors import (
    ConfigError,
    EngineError,
    GristmillError,
    SourceError,
    StateError,
    StoreError,
    did_you_mean,
)


def test_what_the_user_can_mend_exits_with_2_and_the_rest_with_1() -> None:
    kinds = (ConfigError, SourceError, StateError, StoreError, EngineError)
    assert {kind.__name__: kind("x").exit_code for kind in kinds} == {
        "ConfigError": 2, "SourceError": 2, "StateError": 2, "StoreError": 1, "EngineError": 1}  # fmt: skip
    assert all(issubclass(kind, GristmillError) for kind in kinds)


def test_an_error_comes_back_whole_from_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(ConfigError("seq_len must be above 0.", arguments="seq_len")))
    assert (str(error), error.arguments) == ("seq_len must be above 0.", ("seq_len",))
    damaged = pickle.loads(pickle.dumps(SourceError("a.gz is cut off.", "Restore it.")))
    assert (str(damaged), damaged.what) == ("a.gz is cut off. Restore it.", "a.gz is cut off.")


@pytest.mark.parametrize(("word", "hint"), [("weigths", "weights"), ("step", "steps"), ("zzz", "")])
def test_the_nearest_of_the_known_names_is_offered(word: str, hint: str) -> None:
    said = did_you_mean(word, ["weights", "steps"])
    assert said == (f" (did you mean '{hint}'?)" if hint else " (known: steps, weights)")
