"""Credentials against a real server: found where the cloud's tools look, found anew when they end, told to nobody."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.places.storage import VARIABLE

KEY, SECRET = "the-key-of-the-tests", "the-secret-of-the-tests"
Upload = Callable[[Path, str], str]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, make_store: Any, upload: Upload) -> str:
    root = tmp_path_factory.mktemp("asked")
    return upload(make_store(root / "s", [[i % 1000] * 300 for i in range(40)]), "asked")


@pytest.fixture
def keys(tmp_path: Path, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing in the environment; a profile `lab` in a file, and in another where it is reached."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "config").write_text(f"[profile lab]\nregion = us-east-1\nendpoint_url = {proxy.address}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    write_keys(tmp_path / "keys", SECRET)
    return tmp_path / "keys"


def write_keys(path: Path, secret: str) -> None:
    path.write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n")


def test_a_profile_is_named_by_the_option_or_by_the_environment(
    stored: str, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gm.storage("s3://corpus", profile="lab")
    assert gm.verify(stored).whole
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert gm.verify(stored).whole


def test_the_command_line_takes_the_same_option(stored: str, keys: Path, proxy: Any) -> None:
    said = f"s3://corpus,profile=lab,endpoint={proxy.address},deadline=20"
    command = [sys.executable, "-m", "gristmill", "verify", stored, "--storage", said, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["faults"] == []


@pytest.mark.parametrize("answer", ["expired", "403"])
def test_credentials_that_end_in_mid_run_are_found_anew(stored: str, keys: Path, proxy: Any, answer: str) -> None:
    gm.storage("s3://corpus", profile="lab")
    plan = gm.Plan(gm.open(stored), seq_len=64, batch_size=8, steps=20)
    expected = [batch["input_ids"].tolist() for batch in gm.Loader(plan)]
    ended = False

    def ends(number: int, method: str) -> str | None:
        """The server refuses what it was given so far; meanwhile other keys are in the file."""
        nonlocal ended
        if number < 3 or ended:
            return None
        ended = True
        write_keys(keys, SECRET)
        return answer

    write_keys(keys, "not-yet")  # nobody reads the file before the server refuses
    proxy.begin(ends)
    plan = gm.Plan(gm.open(stored), seq_len=64, batch_size=8, steps=20)
    assert [batch["input_ids"].tolist() for batch in gm.Loader(plan)] == expected and ended


def test_refused_credentials_are_told_at_once(stored: str, keys: Path, proxy: Any) -> None:
    gm.storage("s3://corpus", profile="lab")
    write_keys(keys, "wrong-secret")
    proxy.begin(lambda number, method: "403")  # whatever client there is
    with pytest.raises(gm.GristmillError, match="refuses these credentials"):
        gm.open(stored)
    assert len(proxy.requests) == 2


def test_tries_and_deadline_are_kept(stored: str, keys: Path, proxy: Any) -> None:
    gm.storage("s3://corpus", profile="lab", tries=3)
    proxy.begin(lambda number, method: "503")
    with pytest.raises(gm.GristmillError, match="503"):
        gm.open(stored)
    assert len(proxy.requests) == 3


def test_credentials_are_told_to_nobody(
    tmp_path: Path, upload: Upload, keys: Path, proxy: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("text " * 1000)
    source: Any = {"name": "web", "paths": [upload(tmp_path / "raw", "told")]}
    storage: Any = {"s3://corpus": {"profile": "lab"}}
    gm.prepare({"out": str(tmp_path / "o"), "sources": [source], "tokenizer": "byte", "storage": storage})
    store = gm.open(upload(tmp_path / "o", "told-store"))
    plan = gm.Plan(store, seq_len=64, batch_size=2)
    loader = gm.Loader(plan)
    loader.batch(0)
    proxy.begin(lambda number, method: "403")
    with pytest.raises(gm.GristmillError) as told:
        gm.open("s3://corpus/told-store/val")
    said = [path.read_bytes() for path in (tmp_path / "o").rglob("*") if path.is_file()]
    said += [pickle.dumps(loader), plan.to_json().encode(), json.dumps(loader.state_dict()).encode()]
    said += [repr(told.value).encode(), str(told.value.__cause__).encode(), caplog.text.encode()]
    said += [stream.encode() for stream in capfd.readouterr()]
    assert not any(secret.encode() in text for secret in (KEY, SECRET) for text in said)
