"""A simulated run on a screen."""

from __future__ import annotations

import pytest

from gristmill.show.simulation import seconds, show_simulation
from gristmill.simulate.options import SimulateOptions
from gristmill.simulate.simulation import Simulation, Stretch


def found(**changes: object) -> Simulation:
    stretches = [Stretch(0, 10, 8_000_000, 8, 4.0, 2.0, 0), Stretch(10, 20, 1_000_000, 1, 1.0, 0.0, 500_000)]
    values: dict[str, object] = {
        "steps": 20, "simulated_steps": 20, "ranks": 2, "nodes": 3, "bytes": 9_000_000, "served_bytes": 8_000_000,
        "requests": 9, "cost": None, "seconds": 5.5, "first_batch_seconds": 0.5, "stalled_seconds": 2.0,
        "stalled_share": 0.4, "cache_bytes": 500_000, "smallest_cache_bytes": 700_000, "least_stalled_share": 0.25,
        "stretches": stretches, **changes}  # fmt: skip
    return Simulation(**values)  # type: ignore[arg-type]


def test_it_tells_what_was_assumed_what_comes_of_it_and_how_that_goes(capsys: pytest.CaptureFixture[str]) -> None:
    show_simulation("the plan", SimulateOptions(ranks=2, nodes=3, cache="1MB", requests_per_second=500), found())
    out = capsys.readouterr().out
    assert "3 x 2 ranks, a step of 100 ms, 100.0 MB/s and 50 ms a node, 500 requests a" in out
    assert "9.0 MB (1.125 x what is served)" in out and "2.0 s (40.00% of the time)" in out
    assert "0.7 MB (then 25.00% of the time is stalled)" in out and "cost" not in out
    rows = [line for line in out.splitlines() if line.startswith(("MB a step", "stalled %", "cache MB"))]
    assert [row.split()[-2][:2] for row in rows] == ["█▁", "█", "█"]
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_cost_is_shown_where_there_are_prices_and_a_part_that_was_not_walked_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_simulation("the plan", SimulateOptions(per_gb=1), found(cost=12.5, steps=1000))
    out = capsys.readouterr().out
    assert "12.50" in out and "first 20 of 1,000 steps" in " ".join(out.split())


def test_where_no_cache_is_needed_or_none_helps_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for least, said in ((0.0, "none is needed"), (0.5, "the network is too slow")):
        show_simulation("", SimulateOptions(), found(smallest_cache_bytes=0, least_stalled_share=least))
        assert said in capsys.readouterr().out


def test_times_have_the_unit_that_reads_best() -> None:
    assert [seconds(value) for value in (0.0004, 0.08, 1, 59.4, 150, 9000)] == [
        "0.4 ms", "80 ms", "1.0 s", "59.4 s", "2.5 min", "2.5 h"]  # fmt: skip
