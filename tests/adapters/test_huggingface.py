"""Hugging Face data sets by an index of the Arrow files that the real `datasets` writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
import torch

from gristmill.adapters.huggingface import fast_load_iterable_dataset
from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.core.errors import ConfigError, GristmillError, SourceError

FILES, ROWS = 3, 90


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three JSONL files of 90 rows each."""
    home = tmp_path_factory.mktemp("hf")
    (home / "raw").mkdir()
    for number in range(FILES):
        write_rows(home / "raw" / f"{number}.jsonl", range(number * ROWS, (number + 1) * ROWS))
    return home


def write_rows(path: Path, ids: range) -> None:
    rows = ({"id": i, "text": f"document {i}", "tokens": list(range(i, i + i % 5))} for i in ids)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(autouse=True)
def _small_arrow_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` starts another Arrow file for each input file, as it does every 500 MB of a large set."""
    monkeypatch.setattr(datasets.config, "MAX_SHARD_SIZE", "1KB")


def places(home: Path) -> dict[str, str]:
    files = str(home / "raw" / "*.jsonl")
    return {"data_files": files, "cache_dir": str(home / "cache"), "index_dir": str(home / "index")}


def load(home: Path, **options: Any) -> ArrowIterableDataset:
    return fast_load_iterable_dataset("json", **(places(home) | options))


@pytest.fixture
def dataset(home: Path) -> ArrowIterableDataset:
    return load(home)


@pytest.fixture
def own_home(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    write_rows(tmp_path / "raw" / "0.jsonl", range(ROWS))
    return tmp_path


def ids(rows: Any) -> list[int]:
    return [row["id"] for row in rows]


def reference(home: Path, split: str = "train") -> Any:
    return datasets.load_dataset(
        "json", data_files=str(home / "raw" / "*.jsonl"), split=split, cache_dir=str(home / "cache")
    )


# What is read


def test_the_rows_are_those_of_datasets(home: Path, dataset: ArrowIterableDataset) -> None:
    assert list(dataset) == list(reference(home))
    assert len(dataset) == FILES * ROWS
    assert len(dataset._files) == FILES


@pytest.mark.parametrize("split", ["train[20%:70%]", "train[:7]+train[-7:]", "train[100:101]"])
def test_a_part_of_a_split_reads_parts_of_files(home: Path, split: str) -> None:
    assert list(load(home, split=split)) == list(reference(home, split))


# The index


def test_a_later_load_imports_neither_datasets_nor_torch_and_takes_under_a_second(home: Path) -> None:
    load(home)
    code = f"""
import sys, time
sys.modules["torch"] = sys.modules["datasets"] = None     # as if neither were installed
from gristmill.adapters.huggingface import fast_load_iterable_dataset
began = time.process_time()
rows = fast_load_iterable_dataset("json", **{places(home)!r})
first = next(iter(rows.shuffle(3, rows=True)))
print(len(rows), time.process_time() - began)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, seconds = done.stdout.split()
    assert int(count) == FILES * ROWS and float(seconds) < 1


def test_without_datasets_the_first_load_says_what_to_install(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'gristmill\[hf\]'"):
        load(own_home)


def test_an_unchanged_data_set_is_not_loaded_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(load(home))
    monkeypatch.setattr(datasets, "load_dataset", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(load(home)) == rows


def test_absolute_paths_have_one_index_wherever_the_process_runs(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(own_home)
    monkeypatch.chdir(own_home)
    load(own_home)
    assert len(list((own_home / "index").iterdir())) == 1


def test_force_reindex_loads_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(home)
    asked: list[dict[str, object]] = []
    original = datasets.load_dataset
    monkeypatch.setattr(datasets, "load_dataset", lambda **given: asked.append(given) or original(**given))
    load(home)
    assert not asked
    load(home, force_reindex=True)
    assert len(asked) == 1


def test_a_cache_that_was_written_again_is_noticed_and_loaded_again(own_home: Path) -> None:
    rows = list(load(own_home))
    (file,) = load(own_home)._files
    os.utime(file.path, ns=(0, 0))
    with pytest.warns(UserWarning, match=rf"loaded by `datasets` again: {file.path} was written again"):
        assert list(load(own_home)) == rows


def test_a_cache_that_was_removed_is_made_again(own_home: Path) -> None:
    rows = list(load(own_home))
    shutil.rmtree(own_home / "cache")
    with pytest.warns(UserWarning, match=r"\.arrow is missing"):
        assert list(load(own_home)) == rows


@pytest.mark.parametrize("damage", ["deleted", "cut inside a batch", "cut between batches"])
def test_a_cache_that_datasets_cannot_mend_says_how_to(own_home: Path, damage: str) -> None:
    rows = list(load(own_home))
    (file,) = load(own_home)._files
    if damage == "deleted":
        os.unlink(file.path)
    else:
        os.truncate(file.path, file.size - (8 if "between" in damage else 200))
    with pytest.warns(UserWarning, match="is missing|bytes instead of"), pytest.raises(GristmillError) as raised:
        load(own_home)
    assert "download_mode='reuse_cache_if_exists'" in str(raised.value)
    assert list(load(own_home, download_mode="reuse_cache_if_exists")) == list(load(own_home)) == rows


def test_changed_and_added_source_files_are_noticed(own_home: Path) -> None:
    load(own_home)
    write_rows(own_home / "raw" / "0.jsonl", range(5))
    with pytest.warns(UserWarning, match="source files changed"):
        assert ids(load(own_home)) == list(range(5))
    write_rows(own_home / "raw" / "1.jsonl", range(5, 8))
    with pytest.warns(UserWarning, match="source files changed"):
        assert ids(load(own_home)) == list(range(8))


def test_a_file_that_changes_after_opening_is_an_error_where_it_is_read(own_home: Path) -> None:
    dataset = load(own_home)
    os.utime(dataset._files[0].path, ns=(0, 0))
    with pytest.raises(SourceError, match=r"was written again.*force_reindex=True"):
        next(iter(dataset))


def test_a_damaged_index_is_made_again(own_home: Path) -> None:
    rows = list(load(own_home))
    (index,) = (own_home / "index").iterdir()
    index.write_text(index.read_text()[:100])
    with pytest.warns(UserWarning, match="damaged"):
        assert list(load(own_home)) == rows


@pytest.mark.parametrize("change", [
    lambda kept: [kept],
    lambda kept: {"version": kept["version"]},
    lambda kept: kept | {"files": {}},
    lambda kept: kept | {"files": [{"path": 3}]},
    lambda kept: kept | {"files": [kept["files"][0] | {"batches": ["x"]}]},
    lambda kept: kept | {"pieces": [{"file": 7, "start": 0, "length": 1}]},
    lambda kept: kept | {"pieces": [{"file": 0, "start": 0, "length": ROWS + 1}]},
])  # fmt: skip
def test_an_index_that_is_json_of_another_shape_is_made_again(own_home: Path, change: Any) -> None:
    rows = list(load(own_home))
    (index,) = (own_home / "index").iterdir()
    index.write_text(json.dumps(change(json.loads(index.read_text()))))
    with pytest.warns(UserWarning, match="damaged"):
        assert list(load(own_home)) == rows


def test_source_data_that_is_broken_is_told_with_what_is_wrong_in_it(own_home: Path) -> None:
    (own_home / "raw" / "0.jsonl").write_text('{"id": 1}\n{"id": 2,\n{"id"\n')
    with pytest.raises(
        ConfigError, match=r"cannot load json \(.*JSON parse error.*correct the call or the source files"
    ):
        load(own_home)


def test_a_resumed_row_is_the_one_that_would_have_come_in_types_too(tmp_path: Path) -> None:
    tokens = [None if i == 3 else [] if i % 5 == 0 else [i] for i in range(600)]
    datasets.Dataset(pa.table({"tokens": tokens})).save_to_disk(tmp_path / "kept")
    made = fast_load_iterable_dataset(
        "arrow", data_files=f"{tmp_path}/kept/*.arrow", cache_dir=str(tmp_path / "c"), index_dir=tmp_path / "i"
    ).with_format("torch")
    rows = []
    for row in made:
        rows.append(row["tokens"])
        if len(rows) == 5:
            state = made.state_dict()
    made.load_state_dict(state)
    again = [row["tokens"] for row in made]
    assert rows[3] is None and [type(row) for row in rows[5:]] == [type(row) for row in again]
    assert all(row is None or row.dtype == torch.int64 for row in rows)


def test_a_folder_may_hold_the_index_of_its_own_files(own_home: Path) -> None:
    options = {"cache_dir": str(own_home / "cache"), "index_dir": own_home / "raw"}
    rows = list(fast_load_iterable_dataset(str(own_home / "raw"), data_files="*.jsonl", **options))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(fast_load_iterable_dataset(str(own_home / "raw"), data_files="*.jsonl", **options)) == rows


def test_relative_paths_of_two_folders_have_two_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rows in (("a", range(3)), ("b", range(3, 5))):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "rows.jsonl", rows)
        monkeypatch.chdir(tmp_path / name)
        found = fast_load_iterable_dataset(
            "json", data_files="rows.jsonl", index_dir=tmp_path / "index", cache_dir=str(tmp_path / "cache")
        )
        assert ids(found) == list(rows)


def test_an_access_token_does_not_reach_the_disk(own_home: Path) -> None:
    load(own_home, token="hf_secret")
    (index,) = (own_home / "index").iterdir()
    assert "hf_secret" not in index.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"streaming": True}, "streaming= cannot be"),
        ({"keep_in_memory": True}, "keep_in_memory= cannot be"),
        ({"split": None}, "split must be text, such as"),
        ({"split": "test"}, "cannot load json"),
        ({"data_files": "nowhere/*.jsonl"}, "cannot load json"),
        ({"features": object()}, "features cannot be named"),
    ],
)
def test_what_cannot_be_is_one_sentence(home: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(home, **options)


def test_a_folder_of_save_to_disk_is_told_how_to_be_opened(tmp_path: Path) -> None:
    kept, places = str(tmp_path / "kept"), {"cache_dir": str(tmp_path / "cache"), "index_dir": str(tmp_path / "index")}
    datasets.Dataset.from_dict({"id": [1, 2, 3]}).save_to_disk(kept)
    with pytest.raises(ConfigError, match=r'save_to_disk.* say fast_load_iterable_dataset\("arrow", data_files="'):
        fast_load_iterable_dataset(kept, **places)
    assert ids(fast_load_iterable_dataset("arrow", data_files=f"{kept}/*.arrow", **places)) == [1, 2, 3]


def test_torch_may_be_imported_after_the_data_set_was_opened(home: Path) -> None:
    load(home)
    code = f"""
import pickle, sys
from gristmill.adapters.huggingface import fast_load_iterable_dataset
rows = fast_load_iterable_dataset("json", **{places(home)!r})
assert "torch" not in sys.modules and "datasets" not in sys.modules
from torch.utils.data import DataLoader, IterableDataset
print(sum(1 for row in DataLoader(rows, batch_size=None)))
assert isinstance(pickle.loads(pickle.dumps(rows)), IterableDataset)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == FILES * ROWS


def test_files_may_be_named_with_braces(home: Path) -> None:
    found = load(home, data_files={"train": str(home / "raw" / "{0..1}.jsonl")})
    assert [row["id"] for row in found] == list(range(2 * ROWS))
