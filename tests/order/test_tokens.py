"""Sources as they are given: opened stores or paths, by name or one alone."""

import pytest

from gristmill.core.errors import ConfigError
from gristmill.order.tokens import Tokens, opened
from gristmill.testing import tiny_store


def test_an_opened_store_is_what_the_order_asks_for(tmp_path):
    assert isinstance(tiny_store(tmp_path), Tokens) and not isinstance("path", Tokens)


def test_a_lone_source_is_called_data_and_paths_are_opened(tmp_path, make_store):
    store, root = tiny_store(tmp_path / "tiny"), make_store(tmp_path / "s")
    assert opened(store) == {"data": store}
    assert opened(root)["data"].num_shards == opened({"web": str(root)})["web"].num_shards
    assert list(opened({"web": store, "code": root})) == ["web", "code"]


@pytest.mark.parametrize("given", [{}, {"": "x"}, {1: "x"}, None, 7, {"web": 7}, []])
def test_anything_else_is_refused_with_what_is_wanted(given):
    with pytest.raises(ConfigError, match="a mapping of names to stores or paths"):
        opened(given)
