from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.store.exchange import join, link
from gristmill.store.manifest import load_manifest
from gristmill.store.opening import open_store
from gristmill.store.verify import verify

Make = Callable[..., Path]


@pytest.fixture
def parts(tmp_path: Path, make_store: Make) -> list[Path]:
    return [
        make_store(tmp_path / "deep/a", val=[[1]], tokens_per_shard=500, seed=1),
        make_store(tmp_path / "b", val=[[2], [3]], tokens_per_shard=800, seed=2),
    ]


def test_a_joined_store_reads_like_its_parts_end_to_end(tmp_path: Path, parts: list[Path]) -> None:
    join(parts, tmp_path / "all")
    for split in ("train", "val"):
        whole, pieces = open_store(tmp_path / "all" / split), [open_store(part / split) for part in parts]
        expected = [p.document(i).tokens.tolist() for p in pieces for i in range(p.num_documents)]
        assert [whole.document(i).tokens.tolist() for i in range(whole.num_documents)] == expected
        assert whole.num_tokens == sum(piece.num_tokens for piece in pieces)


def test_no_token_is_copied_and_paths_are_relative(tmp_path: Path, parts: list[Path]) -> None:
    manifest = join(parts, tmp_path / "all")
    assert list((tmp_path / "all").rglob("*.bin")) == []
    assert manifest.splits["train"][0].path == "../deep/a/train/shard-00000.bin"


def test_a_joined_store_is_verified_and_its_documents_are_found(tmp_path: Path, parts: list[Path]) -> None:
    join(parts, tmp_path / "all")
    assert verify(tmp_path / "all").faults == []
    store = open_store(tmp_path / "all")
    assert store.locate(["train-3"]) == {"train-3": [3, 53]}
    assert store.document(53).id == "train-3"


def test_the_whole_family_can_be_moved(tmp_path: Path, parts: list[Path]) -> None:
    join(parts, tmp_path / "all")
    (tmp_path / "moved").mkdir()
    for name in ("deep", "b", "all"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert verify(tmp_path / "moved/all").faults == []


def test_a_joined_store_may_lie_behind_a_symlink(tmp_path: Path, parts: list[Path]) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "all").symlink_to(tmp_path / "far/away")
    join(parts, tmp_path / "all")
    assert open_store(tmp_path / "all").num_documents == 100


def test_joined_stores_can_be_joined_again(tmp_path: Path, parts: list[Path], make_store: Make) -> None:
    join(parts, tmp_path / "all")
    join([tmp_path / "all", make_store(tmp_path / "c", [[5]])], tmp_path / "x/more")
    assert verify(tmp_path / "x/more").documents == 104


def test_the_funnel_is_summed_and_versions_and_tokenizer_are_kept(tmp_path: Path, parts: list[Path]) -> None:
    (parts[1] / "tokenizer.json").write_text("{}")
    manifest = join(parts, tmp_path / "all")
    assert manifest.funnel == [{"stage": "train", "source": "test", "documents": 100, "bytes": 0, "tokens": 0}]
    assert manifest.versions == {"test": "1"}
    assert manifest.recipe == {"join": [load_manifest(part).fingerprint for part in parts]}
    assert (tmp_path / "all/tokenizer.json").read_text() == "{}"
    assert load_manifest(tmp_path / "all") == manifest


def test_one_split_of_a_store_can_be_joined_alone(tmp_path: Path, parts: list[Path]) -> None:
    manifest = join([parts[0] / "train", parts[1]], tmp_path / "all")
    assert len(manifest.splits["val"]) == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [({"vocab": 100_000}, "dtype uint32"), ({"vocab": 257}, "eos 256"), ({"tokenizer": "x"}, "tokenizer x")],
)
def test_stores_whose_ids_mean_other_things_are_refused(
    tmp_path: Path, parts: list[Path], make_store: Make, other: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        join([*parts, make_store(tmp_path / "c", **other)], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_store_given_twice_is_refused(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(ConfigError, match="give each store once"):
        join([*parts, parts[0]], tmp_path / "all")


def test_no_stores_or_no_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty list"):
        join([], tmp_path / "all")
    with pytest.raises(ConfigError, match="no store made by Gristmill"):
        join([tmp_path], tmp_path / "all")


def test_a_store_is_not_joined_into_itself(parts: list[Path]) -> None:
    with pytest.raises(ConfigError, match="lies inside the store"):
        join(parts, parts[0], overwrite=True)
    assert verify(parts[0]).faults == []


def test_another_store_is_written_over_only_by_word(tmp_path: Path, parts: list[Path], make_store: Make) -> None:
    old = make_store(tmp_path / "all")
    with pytest.raises(ConfigError, match="already holds a store"):
        join(parts, old)
    join(parts, old, overwrite=True)
    assert open_store(old).num_documents == 100
    assert not list(old.rglob("shard-*"))


def test_a_link_to_itself_would_destroy_the_file_and_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"tokens")
    with pytest.raises(ConfigError, match="link to itself"):
        link(path, path)
    assert path.read_bytes() == b"tokens"
