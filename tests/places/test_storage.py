"""One option for storage: the same words from Python, a recipe and the command line, and never a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.places.storage import VARIABLE, StorageOptions, options_for, parse_storage, use
from gristmill.recipe import as_recipe


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")


def test_the_longest_prefix_counts_and_the_last_word_about_it() -> None:
    gm.storage("s3://", region="eu-west-1")
    gm.storage("s3://corpus/", endpoint="http://127.0.0.1:1", tries=3)
    gm.storage("s3://corpus/open", anonymous=True)
    gm.storage("s3://corpus/open", anonymous=True, deadline=5)
    assert options_for("s3://other/x") == StorageOptions(region="eu-west-1")
    assert options_for("s3://corpus") == options_for("s3://corpus/a") == StorageOptions("http://127.0.0.1:1", tries=3)
    assert options_for("s3://corpus/open/a") == StorageOptions(anonymous=True, deadline=5)
    assert options_for("s3://corpus/opening") == StorageOptions("http://127.0.0.1:1", tries=3)
    assert options_for("gs://corpus") == StorageOptions()


def test_processes_that_are_started_have_it() -> None:
    gm.storage("s3://corpus", anonymous=True)
    code = "from gristmill.places.storage import options_for; print(options_for('s3://corpus/a').anonymous)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_python_a_recipe_and_the_command_line_say_the_same() -> None:
    sources: Any = [{"name": "web", "paths": ["a"]}]
    options = {
        "endpoint": "http://127.0.0.1:8333",
        "region": "eu-west-1",
        "anonymous": True,
        "timeout": 2.5,
        "tries": 4,
    }
    recipe = as_recipe({"out": "o", "sources": sources, "storage": {"s3://corpus": options}})
    text = "s3://corpus,endpoint=http://127.0.0.1:8333,region=eu-west-1,anonymous,timeout=2.5,tries=4"
    gm.storage("s3://corpus", **options)
    assert recipe.storage == parse_storage(text) == {"s3://corpus": options_for("s3://corpus/x")}
    assert recipe.content == as_recipe({"out": "o", "sources": sources}).content


@pytest.mark.parametrize(("given", "said"), [
    ({"secret_access_key": "hush"}, "takes no secrets"),
    ({"access_key_id": "hush"}, "takes no secrets"),
    ({"sas_token": "hush"}, "takes no secrets"),
    ({"endpoint": "http://me:hush@host"}, "no user or password"),
    ({"endpoint": "host:80"}, "http://HOST"),
    ({"regoin": "x"}, "Did you mean 'region'|'region'"),
    ({"anonymous": "no"}, "true or false"),
    ({"deadline": 0}, "deadline"),
    ({"anonymous": True, "profile": "x"}, "leave one"),
])  # fmt: skip
def test_what_it_cannot_be_is_refused_in_a_sentence_without_the_value_of_a_secret(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as told:
        gm.storage("s3://corpus", **given)
    assert "hush" not in str(told.value) and not os.environ[VARIABLE]


@pytest.mark.parametrize(("address", "given"), [("data/x", {}), ("ftp://x", {}), ("gs://x", {"region": "x"})])
def test_it_is_for_addresses_and_a_region_is_s3s(address: str, given: Any) -> None:
    with pytest.raises(ConfigError):
        gm.storage(address, **given)


def test_a_variable_that_is_no_such_option_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("{", "[]", json.dumps({"s3://a": {"x": 1}})):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(ConfigError, match=r"GRISTMILL_STORAGE|storage of s3://a"):
            options_for("s3://a/b")


def test_saying_nothing_changes_nothing() -> None:
    use({})
    assert os.environ[VARIABLE] == ""


def test_a_cache_is_a_folder_and_a_size(tmp_path: Path) -> None:
    found = parse_storage(f"s3://corpus,cache={tmp_path},cache_bytes=1.5GB")["s3://corpus"]
    assert (found.cache, found.cache_limit) == (str(tmp_path), 1_500_000_000)
    gm.storage("s3://corpus", cache=str(tmp_path), cache_bytes=10)
    assert options_for("s3://corpus/a").cache_limit == 10 and options_for("s3://other").cache_limit == 0
    for given in ({"cache": "c"}, {"cache_bytes": "1GB"}, {"cache": "c", "cache_bytes": "much"}):
        with pytest.raises(ConfigError, match=r"give both|is a size such as"):
            gm.storage("s3://corpus", **given)
