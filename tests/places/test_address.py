"""An address of another place stays one, whatever is joined to it or cut off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places import door
from gristmill.places.address import Address, Url
from gristmill.places.door import address_of, as_path, place_at
from gristmill.places.local import Local

URL = "away://bucket/corpus/train/shard-00000.bin.zst"


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(door.PLACES, "away", type("Away", (Local,), {"maps": False}))


def parts(address: Address) -> list[str]:
    made = (address.parent, address.parent / "a", address.with_name("b.idx"), address.with_suffix(".idx"))
    return [address.name, address.stem, address.suffix, *map(os.fspath, made)]


def test_a_url_is_taken_apart_as_a_path_is() -> None:
    path, url = Path("/bucket/corpus/train/shard-00000.bin.zst"), Url(URL)
    assert parts(url) == [part.replace("/bucket", "away://bucket") for part in parts(path)]


def test_both_slashes_survive_and_those_that_a_path_swallowed_come_back() -> None:
    assert os.fspath(address_of(URL) / "x") == f"{URL}/x" == f"{address_of(URL) / 'x'}"
    assert address_of(Path(URL)) == Url(URL) == address_of(f"{URL}/") and str(Path(URL)) != URL
    assert place_at(Path(URL)).path == URL


def test_keys_are_kept_as_they_are_spelt() -> None:
    assert str(Url("away://bucket/a//b/./c") / "d") == "away://bucket/a//b/./c/d"


def test_above_the_bucket_there_is_nothing() -> None:
    assert Url("away://bucket/x").parent.parent == Url("away://bucket")


def test_a_name_of_this_machine_is_a_path() -> None:
    assert isinstance(address_of("a/b"), Path) and isinstance(address_of(Path("a:b")), Path)


def test_a_full_address_is_not_joined_to_another() -> None:
    assert Url("away://bucket/plan.json").parent / URL == Url(URL)


def test_what_must_be_local_says_so() -> None:
    with pytest.raises(ConfigError, match="away://bucket/x is an address, and out has to be a path of this machine"):
        as_path("out", "away://bucket/x")
