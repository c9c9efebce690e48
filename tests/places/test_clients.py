"""How a client is made: what is said comes before the environment, the environment before a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places import clients
from gristmill.places.clients import asked, make_client
from gristmill.places.storage import StorageOptions


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text("[default]\nregion = of-file\nendpoint_url = http://file:1\n")
    (tmp_path / "keys").write_text("[default]\naws_access_key_id = hush\naws_secret_access_key = hush\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))


def made(root: str = "s3://corpus", **options: Any) -> Any:
    return make_client(root, StorageOptions(**options))


def test_what_is_said_comes_first_then_the_environment_then_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (made().config["endpoint"], made().config["region"]) == ("http://file:1", "of-file")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://environment:2")
    monkeypatch.setenv("AWS_REGION", "of-environment")
    assert (made().config["endpoint"], made().config["region"]) == ("http://environment:2", "of-environment")
    said = made(endpoint="http://said:3", region="said").config
    assert (said["endpoint"], said["region"]) == ("http://said:3", "said")


def test_keys_of_a_profile_are_given_when_asked_for_and_are_in_no_representation() -> None:
    client = made()
    assert client.credential_provider()["access_key_id"] == "hush"
    assert "hush" not in repr(client) + str(client.config)


def test_anonymous_access_looks_for_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "missing")
    client = made(anonymous=True)
    assert client.credential_provider is None and client.config["skip_signature"] == "true"


def test_keys_of_the_environment_come_before_a_profile_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-environment")
    assert made().credential_provider is None
    assert made(profile="default").credential_provider is not None


def test_every_cloud_has_its_client() -> None:
    azure: Any = made("az://account/container")
    assert azure.config["account_name"] == "account" and azure.config["container_name"] == "container"
    assert azure.prefix is None
    assert made("gs://corpus", anonymous=True).config["bucket"] == "corpus"
    assert made("https://example.org", anonymous=True).url.startswith("https://example.org")


def test_limits_are_those_of_the_option() -> None:
    found = made(timeout=2.5, connect=1.5)
    assert "2.5" in str(found.client_options["timeout"]) or "2s" in str(found.client_options["timeout"])
    assert found.retry_config["max_retries"] == 0


def test_half_of_a_key_is_told_at_once_and_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hush")
    with pytest.raises(ConfigError, match=r"s3://corpus cannot be asked .*SecretAccessKey") as told:
        asked("s3://corpus/a", "s3://corpus", lambda client: None)
    assert "hush" not in str(told.value) and "\n" not in str(told.value)


def test_settings_are_those_of_the_environment_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clients._settings()
    monkeypatch.setenv("AWS_SESSION_TOKEN", "one")
    first = clients._settings()
    monkeypatch.setenv("AWS_SESSION_TOKEN", "two")
    second = clients._settings()
    monkeypatch.setenv("SOMETHING_ELSE", "changed")
    assert clients._settings() == second
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    assert first - before == {(b"AWS_SESSION_TOKEN", b"one")} and second - before == {(b"AWS_SESSION_TOKEN", b"two")}
    assert clients._settings() == before
