"""A DataFrame that can be opened again outlives its session, and the process that opened it."""

from __future__ import annotations

import os
import pickle
import threading
from typing import Any

import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.streams import frame_queries
from gristmill.streams.frame_queries import Session


class Table:
    """What is taken for a DataFrame."""

    schema: Any = ()
    gone = False

    def selectExpr(self, *expressions: str) -> Table:
        return self

    where = groupBy = selectExpr

    def toArrow(self) -> str:
        if self.gone:
            raise AttributeError("'NoneType' object has no attribute 'setCallSite'")  # as a stopped session does
        return "rows"


def ask(session: Session) -> Any:
    return session.ask(lambda frame: frame.toArrow())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_queries, "_PAUSES", (0.0, 0.0))


def test_a_session_that_is_gone_is_opened_again() -> None:
    opened: list[Table] = []

    def open_table() -> Any:
        opened.append(Table())
        return opened[-1]

    session = Session(open_table)
    assert ask(session) == "rows"
    opened[0].gone = True
    assert ask(session) == ask(session) == "rows" and len(opened) == 2


def test_a_session_that_stays_away_is_an_error_after_three_attempts() -> None:
    opened: list[Table] = []

    def open_table() -> Any:
        opened.append(Table())
        opened[-1].gone = True
        return opened[-1]

    with pytest.raises(EngineError, match="Spark did not answer a query of the DataFrame"):
        ask(Session(open_table))
    assert len(opened) == 3


def test_a_dataframe_that_was_given_open_cannot_be_opened_again() -> None:
    table: Any = Table()
    session = Session(table)
    assert ask(session) == "rows"
    table.gone = True
    with pytest.raises(EngineError, match="Give a function that returns the DataFrame"):
        ask(session)
    with pytest.raises(TypeError, match="give a function"):
        pickle.dumps(session)


def test_another_process_opens_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = Table()
    given, made = Session(table), Session(Table)
    assert ask(pickle.loads(pickle.dumps(made))) == "rows"
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert ask(made) == "rows"
    with pytest.raises(ConfigError, match="each process calls it"):
        ask(given)


def test_a_query_that_is_never_answered_is_asked_again_in_a_new_session() -> None:
    never = threading.Event()
    opened: list[Table] = []

    class Silent(Table):
        def toArrow(self) -> str:
            never.wait()
            return "too late"

    def open_table() -> Any:
        opened.append(Table() if opened else Silent())
        return opened[-1]

    assert ask(Session(open_table, patience=0.05)) == "rows"
    silent: Any = Silent()
    with pytest.raises(EngineError, match="it took over 0 s"):
        ask(Session(silent, patience=0.05))
    never.set()


def test_errors_of_ours_are_not_asked_again() -> None:
    asked = []

    def refuse(frame: Any) -> None:
        asked.append(frame)
        raise ConfigError("No such column.")

    with pytest.raises(ConfigError, match="No such column"):
        Session(Table).ask(refuse)
    assert len(asked) == 1


def test_what_is_no_dataframe_is_refused() -> None:
    for wrong in ("table.parquet", None, 3):
        with pytest.raises(ConfigError, match="a Spark DataFrame, or a function that returns one"):
            Session(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "spelt"), [(5, "5L"), (-5, "-5L"), (-(1 << 63), "(-9223372036854775807L - 1L)")])
def test_every_bigint_can_be_spelt(number: int, spelt: str) -> None:
    assert frame_queries._literal(number) == spelt
