"""A manifest names shards of its own store, or, where `join` wrote it, shards of the stores that it joins."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import StoreError
from gristmill.store.exchange import join
from gristmill.store.export import export_store
from gristmill.store.manifest import load_manifest
from gristmill.store.opening import open_store
from gristmill.store.verify import verify

Make = Callable[..., Path]


def renamed(root: Path, path: str, **changes: Any) -> None:
    """Let the manifest say that the first shard of train lies at `path`."""
    manifest = load_manifest(root)
    first, *others = manifest.splits["train"]
    splits = {**manifest.splits, "train": [dataclasses.replace(first, path=path), *others]}
    dataclasses.replace(manifest, splits=splits, **changes).save(root)


def each_door(root: Path, out: Path) -> None:
    """However a store is opened, the manifest is refused, and nothing is linked."""
    doors: list[Callable[[], Any]] = [
        lambda: open_store(root),
        lambda: open_store(root / "train"),
        lambda: load_manifest(root),
        lambda: verify(root),
        lambda: export_store(root, "nanogpt", out),
        lambda: join([root], out),
    ]
    for door in doors:
        with pytest.raises(StoreError, match=r"no shard in this folder|no such shard|cannot be trusted"):
            door()
    assert not out.exists()


OUTSIDE = ("../../../etc/passwd", "/etc/passwd", "../other/train/shard-00000.bin", "train/../../secret.bin",
           "val/shard-00000.bin", "train/secret.bin", "train/sub/shard-00000.bin", "train//shard-00000.bin",
           "./train/shard-00000.bin", "train/shard-00000.bin\n", "train/shard-00000.bin/../x.bin")  # fmt: skip


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_store_is_refused(tmp_path: Path, make_store: Make, path: str, joined: bool) -> None:
    root = make_store(tmp_path / "s", [[1, 2, 3]], val=[[4, 5, 6]])
    make_store(tmp_path / "other", [[7, 8, 9]])
    for secret in (tmp_path / "secret.bin", root / "train" / "secret.bin"):
        shutil.copyfile(root / "train" / "shard-00000.bin", secret)
    renamed(root, path, recipe={"join": ["0" * 32]} if joined else {})
    each_door(root, tmp_path / "out")


def test_a_part_that_is_no_store_any_more_is_refused(tmp_path: Path, make_store: Make) -> None:
    part = make_store(tmp_path / "part")
    join([part], tmp_path / "all")
    (part / "manifest.json").unlink()
    each_door(tmp_path / "all", tmp_path / "out")


def test_a_part_that_was_made_anew_with_other_content_is_refused(tmp_path: Path, make_store: Make) -> None:
    part = make_store(tmp_path / "part", seed=1)
    join([part], tmp_path / "all")
    shutil.rmtree(part)
    make_store(tmp_path / "part", seed=2)
    each_door(tmp_path / "all", tmp_path / "out")
    shutil.rmtree(part)
    make_store(tmp_path / "part", seed=1)
    assert not verify(tmp_path / "all").faults


def test_joined_stores_can_be_joined_again_and_exported(tmp_path: Path, make_store: Make) -> None:
    parts = [make_store(tmp_path / name, seed=seed) for seed, name in enumerate("ab")]
    join(parts, tmp_path / "both")
    join([tmp_path / "both", make_store(tmp_path / "deep" / "c", seed=3)], tmp_path / "all")
    assert not verify(tmp_path / "all").faults
    report = export_store(tmp_path / "all", "megatron", tmp_path / "out")
    assert len(report.linked) == 2 * open_store(tmp_path / "all").num_shards


def test_a_shard_that_is_a_link_is_joined_by_its_own_name(tmp_path: Path, make_store: Make) -> None:
    part = make_store(tmp_path / "part")
    shard = part / "train" / "shard-00000.bin"
    shard.rename(tmp_path / "elsewhere.bin")
    shard.symlink_to(tmp_path / "elsewhere.bin")
    join([part], tmp_path / "all")
    assert open_store(tmp_path / "all").num_tokens == open_store(part).num_tokens


def test_a_link_to_what_is_no_shard_is_not_exported(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1, 2, 3]])
    shard, secret = root / "train" / "shard-00000.bin", tmp_path / "secret"
    secret.write_bytes(b"x" * shard.stat().st_size)
    shard.unlink()
    shard.symlink_to(secret)
    with pytest.raises(StoreError, match=r"is not this shard|blocks|sum"):
        export_store(root, "nanogpt", tmp_path / "out")
    assert os.stat(secret).st_nlink == 1 and not (tmp_path / "out" / "train.bin").exists()
