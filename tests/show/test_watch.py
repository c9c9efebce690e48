"""A run while it goes, on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from rich.console import Console

from gristmill.figures.run import MixFigures, RunFigures
from gristmill.show.run import run_facts
from gristmill.show.watch import watch

RUN = RunFigures(
    step=9, steps=12, tokens=5120, tokens_per_second=1234.5, steps_per_second=2.5, waited_share=0.031,
    seconds_left=0.8, silent_seconds=1.0, loss=2.5, cache_hits=3, cache_misses=1, fetched_bytes=12_000_000,
    mix=[MixFigures("web\x1b[31m", 0.69, 0.7, 0.5), MixFigures("code", 0.31, 0.3, 1.5)],
)  # fmt: skip


def test_it_looks_again_until_the_last_step_is_served() -> None:
    shown, waits = io.StringIO(), list[float]()
    steps = iter([replace(RUN, step=step) for step in (9, 10, 11)])
    console = Console(file=shown, force_terminal=True, width=80, highlight=False)
    assert watch("run", lambda: next(steps), 2.0, waits.append, console)
    assert waits == [2.0, 2.0]
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.getvalue())
    for said in ("11 of 12", "1,234 tokens/s", "3.1% of the time", "75.0% of 4", "69.00%", "70.00%", r"web\x1b[31m"):
        assert said in text, said


def test_without_a_terminal_nothing_is_shown() -> None:
    shown = io.StringIO()
    assert not watch("run", lambda: RUN, 2.0, lambda _: None, Console(file=shown))
    assert shown.getvalue() == ""


def test_what_is_not_known_is_not_said() -> None:
    bare = replace(RUN, steps=None, seconds_left=None, loss=None, cache_hits=0, cache_misses=0, fetched_bytes=0)
    assert set(run_facts(bare)) == {"step", "tokens", "pace", "waiting for data"}
    assert run_facts(replace(bare, silent_seconds=90.0))["silent for"] == "90.0 s"
