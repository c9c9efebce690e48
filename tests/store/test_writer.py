from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.store.manifest import ShardEntry
from gristmill.store.opening import open_store
from gristmill.store.verify import verify
from gristmill.store.writer import rows_checksum, shard_cuts, write_shard

Make = Callable[..., Path]
some_documents = st.lists(st.lists(st.integers(0, 255), min_size=0, max_size=30), min_size=1, max_size=40)


def _cuts_defined(lengths: list[int], limit: int, filled: int) -> list[tuple[int, int]]:
    """A document at a time."""
    cuts, first = [], 0
    for i, length in enumerate(lengths):
        if filled and filled + length > limit:
            cuts.append((first, i))
            first, filled = i, 0
        filled += length
    return [*cuts, (first, len(lengths))] if lengths else []


@given(st.lists(st.integers(1, 12), max_size=12), st.integers(1, 20), st.integers(0, 30))
def test_a_shard_is_closed_by_the_first_document_that_does_not_fit(lengths: list[int], limit: int, filled: int) -> None:
    assert list(shard_cuts(np.array(lengths, np.int64), limit, filled)) == _cuts_defined(lengths, limit, filled)


@settings(max_examples=60, deadline=None)
@given(documents=some_documents, tokens_per_shard=st.integers(1, 200))
def test_documents_read_back_are_those_written_for_any_size_of_shards(
    make_store: Make, documents: list[list[int]], tokens_per_shard: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = make_store(Path(folder) / "s", documents, vocab=257, tokens_per_shard=tokens_per_shard)
        store = open_store(root)
        read = [store.document(i).tokens.tolist() for i in range(store.num_documents)]
        assert read == [[*document, 256] for document in documents]
        assert verify(root).faults == []
        store.close()


def test_a_document_never_spans_shards_and_a_long_one_gets_its_own(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1] * 4, [2] * 30, [3] * 4, [4] * 4], tokens_per_shard=10)
    assert open_store(root).files.tokens.tolist() == [5, 31, 10]


def test_a_shard_is_filled_to_the_last_token(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1] * 4] * 4, tokens_per_shard=10)
    assert open_store(root).files.tokens.tolist() == [10, 10]


def rows(count: int, **more: Any) -> pa.Table:
    return pa.table({"id": [str(i) for i in range(count)], "source": ["s"] * count, **more})


def written(root: Path, cuts: list[int]) -> ShardEntry:
    """Ten documents of five tokens, given in parts that end at `cuts`."""
    edges = [0, *cuts, 10]
    parts = [
        (np.arange(first * 5, last * 5), np.full(last - first, 5), rows(10).slice(first, last - first))
        for first, last in pairwise(edges)
    ]
    return write_shard(root, "train/shard-00000.bin", "uint16", parts)[0]


def test_bytes_do_not_depend_on_the_parts_that_documents_came_in(tmp_path: Path) -> None:
    contents = []
    for name, cuts in (("a", []), ("b", [1, 2, 9]), ("c", [5])):
        entry = written(tmp_path / name, cuts)
        files = sorted((tmp_path / name / "train").iterdir())
        contents.append((entry, [(file.name, file.read_bytes()) for file in files]))
    assert contents[0] == contents[1] == contents[2]


def test_a_shard_is_complete_with_its_side_files(tmp_path: Path) -> None:
    written(tmp_path, [])
    suffixes = (".bin", ".idx", ".sum", ".docs.parquet", ".ids", ".blocks")
    assert {file.name for file in (tmp_path / "train").iterdir()} == {f"shard-00000{suffix}" for suffix in suffixes}


def test_nothing_of_a_shard_shows_before_it_is_whole_or_after_it_broke_off(tmp_path: Path) -> None:
    def parts() -> Iterator[tuple[Any, Any, pa.Table]]:
        yield np.arange(5), np.array([5]), rows(1)
        assert [file.name for file in (tmp_path / "train").iterdir() if not file.name.startswith(".")] == []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shard(tmp_path, "train/shard-00000.bin", "uint16", parts())
    assert list((tmp_path / "train").iterdir()) == []


def test_the_documents_table_keeps_what_the_source_carried_along(tmp_path: Path) -> None:
    documents = np.arange(5), np.array([2, 3]), rows(2, url=["u0", "u1"])
    write_shard(tmp_path, "train/shard-00000.bin", "uint16", [documents])
    table = pq.read_table(tmp_path / "train/shard-00000.docs.parquet")
    assert table.to_pydict() == {
        "id": ["0", "1"], "source": ["s", "s"], "offset": [0, 2], "length": [2, 3], "url": ["u0", "u1"],
    }  # fmt: skip


def test_rows_are_known_by_their_values_and_not_by_how_arrow_cut_them() -> None:
    whole = rows(4, url=["a", None, "", "b"])
    cut = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    assert rows_checksum(whole) == rows_checksum(cut)
    assert rows_checksum(whole) != rows_checksum(rows(4, url=["a", "", None, "b"]))
