"""A source is a name, which is part of the order, over a store that is cut."""

import pytest

from gristmill.core.errors import ConfigError
from gristmill.order.cut import Chunk
from gristmill.order.source import Source
from gristmill.testing import tiny_store


@pytest.fixture
def store(tmp_path):
    return tiny_store(tmp_path)


def test_the_order_depends_on_name_and_seed_and_not_on_the_place(store, tmp_path):
    keys = {Source(name, Chunk(store), seed, True).order(2, 16, 16).key for name in "ab" for seed in (0, 1)}
    moved = Source("a", Chunk(tiny_store(tmp_path / "moved")), 0, True)
    assert len(keys) == 4 and moved.order(2, 16, 16) == Source("a", Chunk(store), 0, True).order(2, 16, 16)


def test_an_epoch_has_the_sequences_of_the_shards_that_are_pinned(store):
    source = Source("a", Chunk(store), 0, True)
    for shards in (1, 2):
        assert source.order(shards, 16, 32).samples == store.tokens_in(shards) // 32 * 2


def test_a_store_without_a_whole_sequence_is_refused_by_its_name(store):
    with pytest.raises(ConfigError, match=r"Source 'web' has .* too few for one sequence of 100,000"):
        Source("web", Chunk(store), 0, True).order(2, 100_000, 100_000)
