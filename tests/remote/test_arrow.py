"""Arrow files in a bucket of a real S3 server, read where they lie: the rows of those on disk, resumed like them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

import gristmill as gm
from gristmill.adapters.huggingface import fast_load_iterable_dataset

Upload = Callable[[Path, str], str]
ROWS = 400


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, upload: Upload) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("rows")
    for number in range(3):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"id": ids, "text": [f"document {i} " * (i % 50) for i in ids]})
        with pa.ipc.new_stream(folder / f"{number}.arrow", table.schema) as stream:
            stream.write_table(table, max_chunksize=150)
    return folder, upload(folder, "arrow")


def load(address: str, index: Path, **options: Any) -> Any:
    return fast_load_iterable_dataset("arrow", data_files=f"{address}/*.arrow", index_dir=index, **options)


def odd(row: Any) -> bool:
    return bool(row["id"] % 2)


def test_rows_in_a_bucket_are_read_where_they_lie(files: tuple[Path, str], proxy: Any, tmp_path: Path) -> None:
    import datasets

    rows = load(files[1], tmp_path)
    here = datasets.concatenate_datasets([datasets.Dataset.from_file(str(path)) for path in sorted(files[0].iterdir())])
    assert len(rows) == 3 * ROWS and rows.column_names == ["id", "text"]
    assert list(rows) == list(here)
    assert sorted(row["id"] for row in rows.shuffle(3, rows=True).take(50)) != list(range(50))
    proxy.begin()
    list(load(files[1], tmp_path).skip(ROWS).take(100))
    fetched = [each for each in proxy.requests if each.startswith("GET") and ".arrow" in each]
    assert len(fetched) <= 2, "of the middle file, its head and one record batch"


def test_a_state_goes_on_with_other_workers_from_a_bucket(files: tuple[Path, str], proxy: Any, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    rows = load(files[1], tmp_path).shuffle(1).filter(odd)
    whole = [row["id"] for row in rows]
    began = [row["id"] for row in itertools.islice(rows, 137)]
    parts = [rows.shard(2, rank) for rank in range(2)]
    for part in parts:
        part.load_state_dict(rows.state_dict())
    loaders = [torch.utils.data.DataLoader(part, batch_size=None, num_workers=2) for part in parts]
    assert began == whole[:137] and sorted(int(row["id"]) for each in loaders for row in each) == sorted(whole[137:])


def test_a_file_that_was_replaced_or_is_not_there_is_told(
    files: tuple[Path, str], proxy: Any, tmp_path: Path, upload: Upload
) -> None:
    with pytest.raises(gm.ConfigError, match="There is no file at s3://"):
        fast_load_iterable_dataset("arrow", data_files=f"{files[1]}/none-*.arrow", index_dir=tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.arrow").write_bytes((files[0] / "0.arrow").read_bytes())
    address = upload(tmp_path / "own", "replaced")
    rows = load(address, tmp_path / "index")
    (tmp_path / "own" / "a.arrow").write_bytes((files[0] / "1.arrow").read_bytes())
    upload(tmp_path / "own", "replaced")
    with pytest.raises(gm.SourceError, match=r"force_reindex=True"):
        list(rows)
    with pytest.warns(UserWarning, match="was written again|bytes instead of"):
        assert next(iter(load(address, tmp_path / "index")))["id"] == ROWS
    (tmp_path / "own" / "a.arrow").write_bytes((files[0] / "1.arrow").read_bytes()[:-8])
    upload(tmp_path / "own", "replaced")
    with pytest.raises(gm.SourceError, match="is cut off"), pytest.warns(UserWarning, match="bytes instead of"):
        load(address, tmp_path / "index")
