"""Who is told how far work is: nobody, a bar, or whoever the caller names."""

from __future__ import annotations

import pytest

from gristmill.core.bar import Bar
from gristmill.core.errors import ConfigError
from gristmill.core.progress import Progress, Quiet, shown


class Mine:
    def start(self, what: str, total: int, unit: str = "bytes") -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None: ...


def test_false_is_silence_and_none_or_true_a_bar() -> None:
    with shown(False) as told:
        assert isinstance(told, Quiet)
    for given in (None, True):
        with shown(given) as told:
            assert isinstance(told, Bar)


def test_an_object_of_ones_own_is_told_itself() -> None:
    mine = Mine()
    with shown(mine) as told:
        assert told is mine
    assert isinstance(mine, Progress)


def test_anything_else_is_refused_in_words() -> None:
    wanted = "progress must be True, False, or an object with start, advance and note"
    with pytest.raises(ConfigError, match=wanted), shown("yes"):  # type: ignore[arg-type]
        pass
