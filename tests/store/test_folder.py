"""The life of a store's folder: claimed, made, declared whole; and what it refuses on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.folders import UNFINISHED, read_claim
from gristmill.store.folder import StoreFolder
from gristmill.store.manifest import MANIFEST, Manifest, load_manifest

Make = Callable[..., Path]
EMPTY = Manifest("uint16", 256, 257, {"name": "byte", "fingerprint": ""}, {"train": [], "val": []})


def test_a_folder_is_claimed_before_and_whole_after(tmp_path: Path) -> None:
    root = tmp_path / "s"
    with StoreFolder(root, "test").filling(False) as making:
        making.will_write(["train/shard-00000.bin"])
        claim = read_claim(root)
        assert claim is not None and claim.names == {"train/shard-00000.bin"}
        making.finish(EMPTY)
    assert load_manifest(root).splits == EMPTY.splits and not (root / UNFINISHED).exists()
    assert (root / "train").is_dir() and (root / "val").is_dir()


def test_a_store_is_replaced_only_by_word(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    with pytest.raises(ConfigError, match="already holds a store"):
        StoreFolder(root, "test").look(False)
    with StoreFolder(root, "test").filling(True) as making:
        assert not (root / MANIFEST).exists() and list((root / "train").iterdir()) == []
        making.finish(EMPTY)


def test_what_another_command_left_unfinished_is_not_taken_over(tmp_path: Path) -> None:
    with StoreFolder(tmp_path / "s", "import").filling(False):
        pass  # and never finished
    with pytest.raises(ConfigError, match="holds an unfinished import: run that again"):
        StoreFolder(tmp_path / "s", "join").look(False)
    StoreFolder(tmp_path / "s", "import").look(False)


def test_a_file_of_others_is_refused_with_overwrite_too(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s")
    (root / "train" / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match=r"notes\.txt is no part of a store"):
            StoreFolder(root, "test").look(overwrite)


def test_a_folder_is_held_while_it_is_made(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path / "s", "test")
    with folder.filling(False), pytest.raises(ConfigError, match="Another run is writing"), folder.filling(False):
        pass
