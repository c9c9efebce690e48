"""Profiles of ~/.aws are found as AWS's own tools find them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.aws_files import credentials_of, profile_of

CONFIG = """
[default]
region = eu-central-1
[profile lab]
region = us-west-2
endpoint_url = http://127.0.0.1:9
[profile sso]
sso_session = corp
"""
CREDENTIALS = """
[default]
aws_access_key_id = one
aws_secret_access_key = two
[lab]
aws_access_key_id = three
aws_secret_access_key = four
aws_session_token = fi%ve
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    return tmp_path / ".aws"


def test_a_profile_is_the_one_that_is_named_or_that_of_the_environment_or_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert profile_of(None)["region"] == "eu-central-1" and profile_of(None)["aws_access_key_id"] == "one"
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert profile_of(None) == profile_of("lab") and profile_of("lab")["endpoint_url"] == "http://127.0.0.1:9"
    given = credentials_of(profile_of(None))
    assert given and given() == {
        "access_key_id": "three", "secret_access_key": "four", "token": "fi%ve", "expires_at": None,
    }  # fmt: skip


def test_other_files_are_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").write_text("[default]\naws_access_key_id = six\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "elsewhere"))
    assert profile_of(None)["aws_access_key_id"] == "six" and profile_of(None)["region"] == "eu-central-1"


def test_without_files_there_is_nothing_and_the_machines_role_may_know(home: Path) -> None:
    for path in home.iterdir():
        path.unlink()
    assert credentials_of(profile_of(None)) is None
    with pytest.raises(ConfigError, match="no profile 'lab'"):
        profile_of("lab")


def test_a_file_that_is_damaged_is_told_without_a_line_of_it(home: Path) -> None:
    (home / "credentials").write_text("aws_secret_access_key = hush\n[")
    with pytest.raises(ConfigError, match="cannot be read as a file of AWS profiles") as told:
        profile_of(None)
    assert "hush" not in str(told.value) and told.value.__cause__ is None


def test_ways_that_only_boto3_goes_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match="aws configure export-credentials --profile sso"):
        credentials_of(profile_of("sso"))
