"""The version is that of the installed package."""

from __future__ import annotations

import importlib.metadata

import pytest

import gristmill
from gristmill.core.version import version


def test_the_version_is_the_installed_one() -> None:
    assert version() == importlib.metadata.version("gristmill") == gristmill.__version__


def test_a_checkout_that_was_never_installed_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", _not_there)
    assert version() == "unknown"


def _not_there(name: str) -> None:
    raise importlib.metadata.PackageNotFoundError(name)
