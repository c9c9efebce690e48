"""The disk is asked beforehand where it must be asked, and only there."""

import os

import numpy as np
import pytest

from gristmill.store.table import ShardTable
from gristmill.testing import random_documents, tiny_store


@pytest.fixture
def table(tmp_path):
    return ShardTable([tiny_store(tmp_path, random_documents(5000), shards=3)])


def announced(table, monkeypatch):
    """How many pieces the kernel is told of, of one in every 500 tokens."""
    told = []
    monkeypatch.setattr("gristmill.store.table.advise", lambda address, size, advice: told.append((address, size)))
    positions = np.arange(0, int(table.starts[-1]) - 100, 500)
    lengths = np.full_like(positions, 100)
    table.announce(table.shards_of(positions, lengths), positions, lengths)
    return len(told), len(positions)


def test_what_is_in_memory_is_not_announced(table, monkeypatch):
    announced(table, monkeypatch)  # the first look counts the faults of the process so far
    table.bins.bytes_of(0).sum(), table.bins.bytes_of(1).sum(), table.bins.bytes_of(2).sum()
    announced(table, monkeypatch)
    assert announced(table, monkeypatch)[0] == 0


def test_pages_that_are_missing_are_all_asked_for_at_once(table, monkeypatch, tmp_path):
    for path in tmp_path.glob("*.bin"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    told, pieces = announced(table, monkeypatch)
    assert told in (0, pieces)  # a file system in memory alone has nothing to forget
