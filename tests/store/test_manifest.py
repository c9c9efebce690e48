from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import StoreError
from gristmill.store.manifest import load_manifest, read_manifest
from gristmill.store.opening import open_store

Make = Callable[..., Path]


def edit(root: Path, **changes: Any) -> None:
    """Change a manifest as if an older version had written it: without a sum of itself."""
    path = root / "manifest.json"
    values = json.loads(path.read_text()) | changes
    del values["sum"]
    path.write_text(json.dumps(values))


def test_a_manifest_survives_the_trip_through_its_file(tmp_path: Path, make_store: Make) -> None:
    manifest = load_manifest(make_store(tmp_path / "a", val=[[1]]))
    manifest.save(tmp_path)
    assert load_manifest(tmp_path) == manifest
    assert load_manifest(tmp_path).fingerprint == manifest.fingerprint


def test_equal_content_has_an_equal_manifest_wherever_it_lies(tmp_path: Path, make_store: Make) -> None:
    texts = [(make_store(tmp_path / name) / "manifest.json").read_text() for name in ("a", "b")]
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


def test_another_version_is_named_and_not_guessed_at(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    edit(root, gristmill_store=2)
    with pytest.raises(StoreError, match="format version 2; this software reads 1"):
        open_store(root)


def test_a_manifest_without_a_sum_still_opens_since_older_versions_wrote_none(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    manifest = load_manifest(root)
    edit(root)
    assert load_manifest(root) == manifest


def test_any_byte_of_a_manifest_that_changed_is_found(tmp_path: Path, make_store: Make) -> None:
    path = make_store(tmp_path / "s") / "manifest.json"
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        with pytest.raises(StoreError, match=r"manifest\.json"):
            read_manifest(path.parent)
    for other in (data + b"\n", data[:-1], data.replace(b"\n", b"\r\n")):
        path.write_bytes(other)
        with pytest.raises(StoreError, match="does not have the sum that it names"):
            read_manifest(path.parent)


def test_json_that_is_something_else_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(StoreError, match="format version None"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ['{"gristmill_store": 1, "dty', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str | bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("reads", [open_store, load_manifest])
def test_a_manifest_that_lacks_something_is_damaged(tmp_path: Path, make_store: Make, reads: Any) -> None:
    root = make_store(tmp_path / "s")
    edit(root, splits={"train": {}})
    with pytest.raises(StoreError, match=r"manifest\.json is damaged: its split 'train' lacks 'tokens'"):
        reads(root)


BAD_VALUES = {
    "a dtype that is a quotient": ({"dtype": "1/3"}, "dtype cannot be '1/3': it is 'uint8' or"),
    "a dtype that is nothing": ({"dtype": None}, "dtype cannot be None"),
    "an EOS that is a list": ({"eos": [0]}, "eos cannot be"),
    "an EOS below 0": ({"eos": -1}, "eos cannot be -1"),
    "a tokenizer that is text": ({"tokenizer": "gpt2"}, "tokenizer cannot be 'gpt2'"),
    "a tokenizer without a name": ({"tokenizer": {}}, "its tokenizer lacks 'name'"),
    "splits that are a list": ({"splits": []}, "splits cannot be"),
    "a funnel of numbers": ({"funnel": [1]}, "funnel cannot be"),
    "a funnel whose reasons are text": ({"funnel": [{"reasons": "many"}]}, "its funnel: reasons cannot be 'many'"),
    "a split that is nothing": ({"splits": {"train": None}}, "splits cannot be"),
    "shards that are text": (
        {"splits": {"train": {"tokens": 0, "documents": 0, "shards": "a"}}}, "'train': shards cannot be 'a'"
    ),
    "a shard that is nothing": (
        {"splits": {"train": {"tokens": 0, "documents": 0, "shards": [None]}}}, "a shard without the keys"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_value_of_another_kind_is_damage(tmp_path: Path, make_store: Make, case: str) -> None:
    changes, message = BAD_VALUES[case]
    root = make_store(tmp_path / "s")
    edit(root, **changes)
    with pytest.raises(StoreError, match=f"manifest.json is damaged.*{message}"):
        open_store(root)


@pytest.mark.parametrize(("key", "value"), [("tokens", "7"), ("tokens", -1), ("documents", 2**63), ("path", "a\0b"),
                                            ("tokens", True), ("checksum", 3), ("path", None)])  # fmt: skip
def test_a_shards_value_of_another_kind_is_damage(tmp_path: Path, make_store: Make, key: str, value: Any) -> None:
    root = make_store(tmp_path / "s")
    splits = read_manifest(root)["splits"]
    splits["train"]["shards"][0][key] = value
    edit(root, splits=splits)
    with pytest.raises(StoreError, match=f"its split 'train' has a shard whose {key} is"):
        open_store(root)


def test_counts_that_the_shards_do_not_have_are_damage(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    splits = read_manifest(root)["splits"]
    splits["train"]["tokens"] += 1
    edit(root, splits=splits)
    with pytest.raises(StoreError, match="its shards another number"):
        open_store(root)
