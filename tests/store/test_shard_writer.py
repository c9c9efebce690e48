"""Samples to tars: what the real webdataset package reads of them, how many lie in each, and what is refused."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import gristmill as gm
from gristmill.core.errors import ConfigError, EngineError
from nobody import AsNobody


def theirs(*paths: Path) -> list[dict[str, Any]]:
    """What the webdataset package reads and decodes."""
    return list(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False).decode())


def written(folder: Path, *samples: dict[str, object], **options: Any) -> list[Path]:
    with gm.ShardWriter(f"{folder}/a-%03d.tar", **options) as shards:
        for sample in samples:
            shards.write(sample)
    assert shards.total == len(samples) and shards.shards == len(list(folder.iterdir()))
    return sorted(folder.iterdir())


def test_the_webdataset_package_reads_and_decodes_what_was_written(tmp_path: Path) -> None:
    samples: list[dict[str, object]] = [
        {"__key__": "a/0001", "txt": "Grüße", "json": {"url": "ü", "n": [1, None]}, "cls": 7},
        {"__key__": "ü" * 80, "npy": np.arange(5, dtype=np.uint16), "jpg.txt": b"raw", "__url__": "not written"},
        {"__key__": "x" * 300, "txt": ""},
    ]
    one, two, three = theirs(*written(tmp_path, *samples))
    assert (one["__key__"], one["txt"], one["json"], one["cls"]) == ("a/0001", "Grüße", {"url": "ü", "n": [1, None]}, 7)
    assert two["npy"].dtype == np.uint16 and two["npy"].tolist() == [0, 1, 2, 3, 4]
    assert (two["__key__"], two["jpg.txt"]) == ("ü" * 80, "raw")
    assert (three["__key__"], three["txt"]) == ("x" * 300, "")


@pytest.mark.parametrize(("options", "counts"), [
    ({"maxcount": 3}, [3, 3, 1]), ({"maxsize": 1}, [1] * 7), ({"maxsize": 4096}, [2, 2, 2, 1]), ({}, [7]),
    ({"maxsize": "4KB"}, [2, 2, 2, 1]), ({"maxsize": 4e3, "maxcount": 1}, [1] * 7),
])  # fmt: skip
def test_a_tar_is_full_by_samples_or_by_bytes(tmp_path: Path, options: Any, counts: list[int]) -> None:
    paths = written(tmp_path, *({"__key__": str(i), "txt": b"x" * 1500} for i in range(7)), **options)
    assert [len(theirs(path)) for path in paths] == counts


def test_equal_samples_are_equal_bytes_and_standard_tars(tmp_path: Path) -> None:
    samples = [{"__key__": "1", "txt": "one", "json": {}}, {"__key__": "2", "txt": "two"}]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (one,), (other,) = written(tmp_path / "a", *samples), written(tmp_path / "b", *samples)
    assert one.read_bytes() == other.read_bytes() and len(one.read_bytes()) % 512 == 0
    with tarfile.open(one) as tar:
        assert [(member.name, member.mtime, member.isfile()) for member in tar] == [
            ("1.json", 0, True), ("1.txt", 0, True), ("2.txt", 0, True)]  # fmt: skip


def test_our_own_streams_read_what_was_written(tmp_path: Path) -> None:
    written(tmp_path, *({"__key__": f"{i:04d}", "txt": f"text {i}", "json": {"id": f"doc-{i}"}} for i in range(9)))
    loader = gm.stream(f"{tmp_path}/*.tar").tokenize("byte").pad(16).batch(3, epochs=1, shuffle=False).loader()
    assert sum(int((batch["input_ids"][:, 0] == ord("t")).sum()) for batch in loader) == 9


@pytest.mark.parametrize(("sample", "said"), [
    ({"txt": "no key"}, '"__key__"'), ({"__key__": 7, "txt": ""}, '"__key__"'), ("text", '"__key__"'),
    ({"__key__": "a.b", "txt": ""}, "without dots"), ({"__key__": "", "txt": ""}, "cannot be a key"),
    ({"__key__": "../a", "txt": ""}, "cannot be a key"), ({"__key__": "/a", "txt": ""}, "cannot be a key"),
    ({"__key__": "a/", "txt": ""}, "cannot be a key"), ({"__key__": "__a__", "txt": ""}, "cannot be a key"),
    ({"__key__": "a\0", "txt": ""}, "cannot be a key"), ({"__key__": "\ud800", "txt": ""}, "UTF-8"),
    ({"__key__": "a"}, "no members"), ({"__key__": "a", "__url__": "u"}, "no members"),
    ({"__key__": "a", "TXT": ""}, "lower case"), ({"__key__": "a", "b/txt": ""}, "lower case"),
    ({"__key__": "a", "pyd": {}}, "cannot be a dict.*Nothing is pickled"),
    ({"__key__": "a", "json": {1j}}, "a.json cannot be written"), ({"__key__": "a", "json": float("nan")}, "a.json"),
    ({"__key__": "a", "npy": np.array([{}])}, "a.npy cannot be written"), ({"__key__": "a", "txt": "\ud800"}, "a.txt"),
])  # fmt: skip
def test_what_no_reader_would_take_as_it_was_meant_is_refused(tmp_path: Path, sample: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said), gm.ShardWriter(f"{tmp_path}/%d.tar") as shards:
        shards.write(sample)


def test_neighbours_of_one_key_are_refused_but_not_in_two_tars(tmp_path: Path) -> None:
    sample: dict[str, object] = {"__key__": "a", "txt": ""}
    with pytest.raises(ConfigError, match="readers take for one sample"):
        written(tmp_path, sample, sample)
    assert len(theirs(*written(tmp_path, sample, sample, maxcount=1))) == 2


def test_a_tar_that_is_cut_short_does_not_appear_and_whole_ones_stay(tmp_path: Path) -> None:
    samples: list[Any] = [{"__key__": str(i), "txt": ""} for i in range(5)]
    with pytest.raises(ConfigError, match="has no members"):
        written(tmp_path, *samples, {"__key__": "5"}, maxcount=2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a-000.tar", "a-001.tar"]


def test_a_tar_that_is_there_is_not_replaced_unless_that_is_said(tmp_path: Path) -> None:
    written(tmp_path, {"__key__": "1", "txt": "one"})
    with pytest.raises(ConfigError, match=r"a-000.tar is there already"):
        written(tmp_path, {"__key__": "1", "txt": "two"})
    assert theirs(*written(tmp_path, {"__key__": "1", "txt": "two"}, overwrite=True))[0]["txt"] == "two"
    assert len(theirs(*written_beside(tmp_path))) == 2


def written_beside(folder: Path) -> list[Path]:
    with gm.ShardWriter(f"{folder}/a-%03d.tar", start_shard=1) as shards:
        shards.write({"__key__": "2", "txt": "beside"})
    return sorted(folder.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["shut/a-%d.tar", "shut/below/a-%d.tar"])
def test_a_folder_that_nothing_can_be_written_to_is_a_sentence(
    open_folder: Path, as_nobody: AsNobody, name: str, overwrite: bool
) -> None:
    (open_folder / "shut").mkdir(mode=0)
    shards = gm.ShardWriter(open_folder / name, overwrite=overwrite)
    with as_nobody(), pytest.raises(EngineError, match=r"a-0.tar cannot be written \(Permission denied\)"):
        shards.write({"__key__": "a", "txt": "x"})


@pytest.mark.parametrize("pattern", ["a.tar", "a-%d.tar.gz", "a-%d-%d.tar", "a-%s", "%", 7, "https://host/a-%d.tar"])
def test_a_pattern_has_a_place_for_the_number(pattern: Any) -> None:
    with pytest.raises(ConfigError):
        gm.ShardWriter(pattern)
