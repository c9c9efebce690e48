"""The documents of one foreign file: by its index, its sidecar, or EOS."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store.foreign import ForeignFile, open_foreign, read_foreign

Make = Callable[..., Path]
EOS = 256


def read(path: Path, boundaries: str = "auto", dtype: str | None = None) -> ForeignFile:
    return read_foreign(open_foreign(path, dtype, EOS), EOS, boundaries)


def test_documents_of_an_index_are_its_own_and_an_eos_inside_cuts_them(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "a.bin", [[1, 2], [3, EOS, 4]], vocab=257, idx=True)
    file = read(path)
    assert file.starts.tolist() == [0, 3, 5, 7] and file.has_eos.all() and file.cut == 1
    assert file.names.column("id").to_pylist() == ["a:0", "a:1", "a:1"]
    assert read(path, "eos").names.column("id").to_pylist() == ["a:0", "a:1", "a:2"]


def test_a_tail_without_eos_is_a_document_that_lacks_it(tmp_path: Path) -> None:
    np.array([1, EOS, 2, 3], np.uint16).tofile(tmp_path / "a.bin")
    file = read(tmp_path / "a.bin", dtype="uint16")
    assert file.starts.tolist() == [0, 2, 4] and file.has_eos.tolist() == [True, False]


def test_tokens_that_a_sidecar_does_not_mention_become_documents(tmp_path: Path) -> None:
    np.array([1, EOS, 2, EOS, 3, EOS], np.uint16).tofile(tmp_path / "a.npy")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0,2,first,web.txt,0\n4,6,last,web.txt,1\n"))
    file = read(tmp_path / "a.npy", dtype="uint16")
    assert file.names.column("id").to_pylist() == ["first", "a:1", "last"] and file.unnamed == 1


@pytest.mark.parametrize("rows", [b"0,9\n", b"2,4\n1,3\n", b"x,y\n", b"1\n"])
def test_a_sidecar_that_cannot_be_is_refused_by_its_name(tmp_path: Path, rows: bytes) -> None:
    np.array([1, EOS, 2, EOS, 3, EOS], np.uint16).tofile(tmp_path / "a.npy")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(rows))
    with pytest.raises(StoreError, match=r'a\.csv\.gz .*import with boundaries="eos"'):
        read(tmp_path / "a.npy", dtype="uint16")


def test_a_folder_is_no_token_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder: give its token files"):
        open_foreign(tmp_path, None, EOS)
