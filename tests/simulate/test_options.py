"""The circumstances of a run, in the units that people write."""

from __future__ import annotations

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.options import as_options
from gristmill.simulate.options import SimulateOptions


def test_units_are_read_and_numbers_are_bytes_and_seconds() -> None:
    options = SimulateOptions(bandwidth="8Mbit/s", latency="80ms", step_time=0.5, cache="2GB")
    assert (options.bytes_per_second, options.latency_seconds) == (1e6, 0.08)
    assert (options.step_seconds, options.cache_bytes) == (0.5, 2 * 10**9)


def test_prices_are_a_gigabyte_and_a_thousand_requests_and_none_is_no_cost() -> None:
    assert not SimulateOptions().priced
    options = SimulateOptions(per_gb=0.09, per_1000_requests=0.4)
    assert options.priced and options.cost(2e9, 5000) == pytest.approx(0.18 + 2)
    assert SimulateOptions(per_gb=1).cost(10**9, 10**6) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [({"bandwith": "1MB/s"}, "did you mean 'bandwidth'"), ({"latency": "near"}, "latency is a time"),
     ({"ranks": 0}, "ranks cannot be 0"), ({"requests_per_second": 0}, "requests_per_second cannot be 0"),
     ({"bandwidth": None}, "bandwidth cannot be None"), ({"cache": "-1"}, "cache is a size"),
     ({"per_gb": "cheap"}, "per_gb cannot be 'cheap'")],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        as_options(SimulateOptions, given)
