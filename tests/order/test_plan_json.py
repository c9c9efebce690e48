"""A plan's text says all of it, and whatever was changed in it is found."""

import json

import pytest

from gristmill.core.errors import ConfigError
from gristmill.order.plan_json import read_plan, write_plan

PIN = {"path": "data/web", "shards": 2, "tokens": 900, "fingerprint": "0f"}
VALUES = {"sources": {"web": PIN}, "weights": None, "seq_len": 16, "batch_size": 4, "seed": 1, "steps": None}


def changed(change):
    values = {**json.loads(write_plan(VALUES)), **change}
    del values["sum"]
    return json.dumps(values)


def test_what_was_written_is_read():
    read = read_plan(write_plan(VALUES))
    assert {key: read[key] for key in VALUES} == VALUES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sed": 1}, "did you mean 'seed'"),
        ({"gristmill_plan": 7}, "version 7"),
        ({"seq_len": "16"}, "seq_len cannot be '16'"),
        ({"sources": []}, "sources must be a mapping"),
        ({"sources": {"web": {**PIN, "shards": 0}}}, "shards cannot be 0"),
        ({"sources": {"web": {"path": "x"}}}, "source 'web' lacks 'shards'"),
    ],
)
def test_keys_and_kinds_that_cannot_be_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        read_plan(changed(change))


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("{}", "no Gristmill plan"), ("[]", "no Gristmill")])
def test_what_is_no_plan_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        read_plan(text)


def test_paths_may_be_changed_and_nothing_else():
    text = write_plan(VALUES)
    assert read_plan(text.replace("data/web", "elsewhere"))["sources"]["web"]["path"] == "elsewhere"
    with pytest.raises(ConfigError, match="not as it was written"):
        read_plan(text.replace('"seed": 1', '"seed": 2'))
