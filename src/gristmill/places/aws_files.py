"""What the tools of AWS find in ~/.aws: the keys, region and endpoint of a profile. obstore does not look there."""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import S3Credential

# Ways to credentials that only AWS's own library goes.
_BY_BOTO3 = ("credential_process", "sso_session", "sso_start_url", "role_arn", "login_session")
_DEFAULT = "default"


def profile_of(named: str | None) -> dict[str, str]:
    """The values of a profile: the one that is named, else that of AWS_PROFILE, else `default`, which may be missing.

    They hold secrets: whoever asks passes them on to nobody but the client.
    """
    name = named or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or _DEFAULT
    config = _file("AWS_CONFIG_FILE", "config")
    section = name if name == _DEFAULT else f"profile {name}"
    found = {**config.get(section, {}), **_file("AWS_SHARED_CREDENTIALS_FILE", "credentials").get(name, {})}
    if not found and name != _DEFAULT:
        raise ConfigError(f"There is no profile {name!r} in the files of AWS (~/.aws/config and ~/.aws/credentials).")
    return {**found, "profile": name}


def _file(variable: str, name: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of an INI file. What is wrong with it is told without a line of it, which may be a secret."""
    path = Path(os.environ.get(variable) or Path("~/.aws") / name).expanduser()
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ConfigError(f"{path} cannot be read as a file of AWS profiles ({type(error).__name__}).") from None
    return {section: dict(parser[section]) for section in parser.sections()}


def credentials_of(profile: Mapping[str, str]) -> Callable[[], S3Credential] | None:
    """What gives a client the keys of a profile; None where the profile has none, and the machine's role may."""
    if "aws_access_key_id" in profile:
        return lambda: {
            "access_key_id": profile["aws_access_key_id"],
            "secret_access_key": profile.get("aws_secret_access_key", ""),
            "token": profile.get("aws_session_token"),
            "expires_at": None,
        }
    return _by_boto3(profile["profile"]) if any(key in profile for key in _BY_BOTO3) else None


def _by_boto3(name: str) -> Callable[[], S3Credential]:
    """Single sign-on, roles and other programs: boto3 knows these ways."""
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError:
        raise ConfigError(
            f"The AWS profile {name!r} gets its keys from single sign-on, a role or a program: install boto3, or run "
            f"`aws configure export-credentials --profile {name} --format env` and export what it prints."
        ) from None
    try:
        return Boto3CredentialProvider(boto3.Session(profile_name=name))
    except Exception as error:  # of many kinds, with words that may hold what a program printed
        raise ConfigError(
            f"boto3 finds no credentials for the AWS profile {name!r} ({type(error).__name__})."
        ) from None
