from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.store import idx
from gristmill.store.format import write_idx
from gristmill.store.idx import scanned_lengths, write_scanned_idx
from gristmill.store.opening import open_store

tokens_with_eos = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(tokens=tokens_with_eos)
def test_documents_end_after_each_eos_and_cover_every_token(tokens: list[int]) -> None:
    lengths = scanned_lengths(np.array(tokens, np.uint16), 0, comes_first=False)
    assert lengths.sum() == len(tokens) and (lengths > 0).all()
    ends = (np.cumsum(lengths) - 1).tolist()
    assert ends == sorted({i for i, token in enumerate(tokens) if token == 0} | {len(tokens) - 1})


@given(tokens=tokens_with_eos)
def test_where_eos_comes_first_documents_begin_at_each(tokens: list[int]) -> None:
    lengths = scanned_lengths(np.array(tokens, np.uint16), 0, comes_first=True)
    starts = (np.cumsum(lengths) - lengths).tolist()
    assert lengths.sum() == len(tokens)
    assert starts == sorted({i for i, token in enumerate(tokens) if token == 0} | {0})


def test_a_scan_in_pieces_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.random.default_rng(0).integers(0, 5, 1000).astype(np.uint16)
    whole = scanned_lengths(tokens, 0, comes_first=False)
    monkeypatch.setattr(idx, "_SCAN_TOKENS", 7)
    assert (scanned_lengths(tokens, 0, comes_first=False) == whole).all()


def test_the_scanned_index_is_the_one_a_writer_would_have_made(tmp_path: Path, make_bare: Callable[..., Path]) -> None:
    store = open_store(make_bare(tmp_path / "x.bin", [[1, 2], [3]]), dtype="uint16", eos=50_256)
    write_scanned_idx(store, 0, tmp_path / "found.idx")
    expected = io.BytesIO()
    write_idx(expected, np.array([3, 2]), "uint16")
    assert (tmp_path / "found.idx").read_bytes() == expected.getvalue()


def test_without_eos_there_is_nothing_to_scan_for(tmp_path: Path, make_bare: Callable[..., Path]) -> None:
    store = open_store(make_bare(tmp_path / "x.bin", [[1, 2], [3]]), dtype="uint16")
    with pytest.raises(ConfigError, match="no eos="):
        write_scanned_idx(store, 0, tmp_path / "found.idx")


def test_a_megatron_index_cannot_describe_every_dtype(tmp_path: Path) -> None:
    np.array([1, 2, 0], np.int8).tofile(tmp_path / "x.bin")
    store = open_store(tmp_path / "x.bin", dtype="int8", eos=0)
    with pytest.raises(ConfigError, match="cannot describe int8"):
        write_scanned_idx(store, 0, tmp_path / "found.idx")
