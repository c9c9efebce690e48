"""Indexes are built when asked for, once, and a store that grows keeps the bins that it had."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.indexing import index_documents
from gristmill.testing import random_documents, tiny_store


class Counted:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.done = 0

    def start(self, what: str, total: int, unit: str = "") -> None:
        self.totals.append(total)

    def advance(self, amount: int) -> None:
        self.done += amount

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_an_index_is_built_once_and_again_by_force(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    path = gm.index(store, 16)
    os.utime(path, (1, 1))
    assert gm.index(store, 16) == path and path.stat().st_mtime == 1
    assert gm.index(store, 16, force=True) == path and path.stat().st_mtime > 1


def test_many_who_ask_at_once_get_one_index(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: gm.index(store, 16), range(8)))
    assert len(paths) == 1 and sorted(path.suffix for path in tmp_path.iterdir()).count(".gmi") == 1


def test_progress_counts_every_document(tmp_path: Path) -> None:
    told = Counted()
    gm.index(tiny_store(tmp_path, random_documents(50)), 16, progress=told)
    assert (told.totals, told.done) == ([50], 50)


@pytest.mark.parametrize("seq_len", [0, -1, None, "16", 2.5])
def test_a_window_that_cannot_be_is_refused(tmp_path: Path, seq_len: object) -> None:
    with pytest.raises(gm.ConfigError, match="seq_len must be a whole number above 0"):
        gm.index(tiny_store(tmp_path), seq_len)  # type: ignore[arg-type]


def test_the_documents_of_bare_files_are_found_by_eos(tmp_path: Path) -> None:
    documents = random_documents(9)
    store, told = tiny_store(tmp_path, documents), Counted()
    written = index_documents(store, progress=told)
    assert written == [tmp_path / "part-0.idx", tmp_path / "part-1.idx"]
    assert told.totals == [told.done] == [store.num_tokens * 2]
    opened = gm.open(sorted(tmp_path.glob("*.bin")))
    assert [len(opened.document(i).tokens) - 1 for i in range(9)] == [len(document) for document in documents]
    assert np.array_equal(opened.tokens(0, opened.num_tokens), store.tokens(0, store.num_tokens))
    with pytest.raises(gm.ConfigError, match="is there already: say force=True"):
        index_documents(store, progress=told)
    assert index_documents(store, force=True, progress=told) == written
