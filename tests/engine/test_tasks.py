"""Tasks of a cluster: what they answer, and what they refuse."""

from __future__ import annotations

import math
import os
import pickle

import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.engine import tasks
from gristmill.engine.tasks import Task, taken
from gristmill.places.storage import VARIABLE


def refuse(part: object) -> None:
    raise ConfigError(f"{part} cannot be.", arguments="part")


def test_an_answer_comes_back_as_it_was_given() -> None:
    assert taken(Task.of(math.factorial, 5, pickle.dumps).answer()) == 120
    assert taken(Task.of(print, "", pickle.dumps).answer()) is None


def test_an_error_of_ours_comes_back_with_its_arguments() -> None:
    with pytest.raises(ConfigError, match=r"^7 cannot be\.$") as found:
        taken(Task.of(refuse, 7, pickle.dumps).answer())
    assert found.value.arguments == ("part",)


def test_an_error_of_others_is_told_with_its_place() -> None:
    with pytest.raises(EngineError, match=r"A worker failed: ValueError: factorial.*\(.*tasks\.py, line \d+\)\.$"):
        taken(Task.of(math.factorial, -1, pickle.dumps).answer())


def test_another_version_on_a_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.of(math.factorial, 5, pickle.dumps)
    monkeypatch.setattr(tasks, "version", lambda: "0.0.1")
    with pytest.raises(EngineError, match=r"has gristmill 0\.0\.1, the driver .*: install the same everywhere"):
        taken(task.answer())


def test_a_node_reaches_storage_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"s3://a": {"endpoint": "http://127.0.0.1:1"}}')
    task = Task.of(os.getenv, VARIABLE, pickle.dumps)
    monkeypatch.delenv(VARIABLE)
    assert taken(task.answer()) == '{"s3://a": {"endpoint": "http://127.0.0.1:1"}}'


def test_parts_travel_together_and_what_they_share_once() -> None:
    shared = os.urandom(1 << 20)
    task = Task.of(len, [(shared, *range(i)) for i in range(50)], pickle.dumps)
    assert len(pickle.dumps(task)) < 2 << 20
    assert [taken(task.answer(number)) for number in (0, 7, 49)] == [1, 8, 50]
