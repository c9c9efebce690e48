"""How samples are cut and laid into files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.errors import ConfigError
from gristmill.store import samples_out
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.store.samples_out import sample_edges, write_samples

EOS = 50256


@pytest.fixture
def store(tmp_path: Path, make_store: Callable[..., Path]) -> Store:
    return open_store(make_store(tmp_path / "s", [[1, 2], [3], [4, 5, 6], [7]], tokens_per_shard=6))


def cuts(store: Store, seq_len: int | None, room: int) -> list[list[int]]:
    return [edges.tolist() for edges in sample_edges(store, seq_len, lambda lengths: lengths * 2, room)]


def test_a_file_holds_documents_of_one_shard_and_no_more_than_fit(store: Store) -> None:
    assert cuts(store, None, 100) == [[0, 3, 5], [5, 9, 11]]
    assert cuts(store, None, 8) == [[0, 3], [3, 5], [5, 9], [9, 11]]
    assert cuts(store, None, 1) == [[0, 3], [3, 5], [5, 9], [9, 11]]


def test_samples_of_one_length_go_on_from_shard_to_shard(store: Store) -> None:
    assert cuts(store, 2, 8) == [[0, 2, 4], [4, 6, 8], [8, 10]]
    assert cuts(store, 4, 1) == [[0, 4], [4, 8]]


@pytest.mark.parametrize("with_heads", [False, True])
def test_a_file_is_offsets_and_samples(store: Store, monkeypatch: pytest.MonkeyPatch, with_heads: bool) -> None:
    monkeypatch.setattr(samples_out, "COPY_TOKENS", 3)
    edges, file = np.array([0, 3, 5, 9]), io.BytesIO()
    head = (lambda length: bytes([length])) if with_heads else None
    sizes = np.diff(edges) * 2 + with_heads
    write_samples(file, store, edges, sizes, before=b"{}", head=head)
    data = file.getvalue()
    count, starts = int.from_bytes(data[:4], "little"), np.frombuffer(data, "<u4", 4, 4)
    assert count == 3 and starts[0] == 22 and data[20:22] == b"{}" and starts[-1] == len(data)
    samples = [data[starts[i] + with_heads : starts[i + 1]] for i in range(3)]
    assert [np.frombuffer(sample, "<u2").tolist() for sample in samples] == [[1, 2, EOS], [3, EOS], [4, 5, 6, EOS]]
    assert not with_heads or [data[starts[i]] for i in range(3)] == [3, 2, 4]


def test_a_file_of_4_gib_or_more_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_out, "_OFFSETS_END", 18)
    with pytest.raises(ConfigError, match=r"ends before 4 GiB: give seq_len="):
        write_samples(io.BytesIO(), store, np.array([0, 3]), np.array([6]))
