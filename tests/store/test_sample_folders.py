"""Which documents a folder of samples holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.store import sample_folders
from gristmill.store.export import export_store
from gristmill.store.foreign import ForeignFile
from gristmill.store.importing import import_store
from gristmill.store.opening import open_store
from gristmill.store.sample_folders import SampleFolder, open_samples, split_folders
from gristmill.store.samples_in import Batch, SampleFile

EOS = 9


def file_of(batches: list[list[int]], name: str = "f") -> Any:
    """A file whose batches are given, each one sample."""

    class InMemory(SampleFile):
        def batches(self) -> Any:
            return ((np.array(tokens, np.uint16), np.array([len(tokens)])) for tokens in batches)

    def nothing(data: bytes, edges: Ints) -> Batch:
        raise AssertionError

    return InMemory(Path(name), name, len(batches), 0, None, None, {}, nothing)


def documents(pieces: Any) -> list[list[int]]:
    found: list[list[int]] = []
    for piece in pieces:
        assert isinstance(piece, ForeignFile) and piece.header
        found += [piece.tokens[a:b].tolist() for a, b in zip(piece.starts[:-1], piece.starts[1:], strict=True)]
    return found


@given(st.lists(st.lists(st.lists(st.integers(5, EOS), max_size=6), min_size=1, max_size=4), min_size=1, max_size=5))
@settings(deadline=None)
def test_documents_of_a_stream_do_not_depend_on_where_it_is_cut(files: list[list[list[int]]]) -> None:
    folder = SampleFolder(Path("d"), [file_of(batches, f"f{i}") for i, batches in enumerate(files)])
    found = [documents(pieces) for pieces in folder.read(EOS, "eos")]
    stream = [token for batches in files for tokens in batches for token in tokens]
    assert [token for part in found for document in part for token in document] == stream
    all_of_them = [document for part in found for document in part]
    assert all(document[-1] == EOS and EOS not in document[:-1] for document in all_of_them[:-1])
    assert all(EOS not in document[:-1] for document in all_of_them)


def test_a_document_that_grows_beyond_the_bound_ends_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_folders, "_MOST_KEPT", 3)
    folder = SampleFolder(Path("d"), [file_of([[1], [2, 3]]), file_of([[4], [5]]), file_of([[6, EOS, 7]])])
    assert [documents(pieces) for pieces in folder.read(EOS, "eos")] == [[], [[1, 2, 3, 4, 5]], [[6, EOS], [7]]]


def test_a_file_in_which_no_document_ends_makes_no_shard(tmp_path: Path, make_store: Callable[..., Path]) -> None:
    from gristmill.store import litdata

    root = make_store(tmp_path / "s", [[1] * 50, [2] * 3], vocab=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(litdata, "SIZE_LIMIT", 40)
        export_store(root, "litdata", tmp_path / "out", seq_len=5)
    report = import_store(tmp_path / "out", tmp_path / "new", eos=99, vocab_size=100)
    new = open_store(tmp_path / "new")
    assert len(list((tmp_path / "out" / "train").glob("*.bin"))) == 3 and new.num_shards == 1
    assert new.tokens(0, 55).tolist() == open_store(root).tokens(0, 55).tolist()
    assert (report.documents, report.tokens) == (2, 55)


def test_splits_are_found_below_a_folder_that_has_no_index(tmp_path: Path) -> None:
    assert split_folders(tmp_path) == {}
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "index.json").write_text("{}")
    assert split_folders(tmp_path) == {split: tmp_path / split for split in ("train", "val")}
    (tmp_path / "index.json").write_text("{}")
    assert split_folders(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "neither MDS nor LitData"),
        ("{}", "neither MDS nor LitData"),
        ('{"shards": {}}', "no list of shards"),
        ('{"shards": [], "version": 2}', "names no samples"),
        ('{"shards": [5]}', "must be a mapping"),
        ('{"chunks": []}', "config must be a mapping"),
        ('{"chunks": {}, "config": {"data_format": ["no_header_tensor:20"]}}', "no list of chunks"),
    ],
)
def test_an_index_of_something_else_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises((ConfigError, StoreError), match=said):
        open_samples(tmp_path, None)
