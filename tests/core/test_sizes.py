"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.core.sizes import mega, megabytes, parse_seconds, parse_size, parse_speed, speed


@pytest.mark.parametrize(
    ("text", "size"),
    [(7, 7), ("7", 7), ("7b", 7), ("4GB", 4 * 10**9), ("4G", 4 << 30),
     (" 1.5 GiB ", 3 << 29), ("0.1kB", 100), ("2t", 2 << 40)],
)  # fmt: skip
def test_a_size_is_a_number_and_a_unit(text: str | int, size: int) -> None:
    assert parse_size(text, "memory") == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e9", "4 XB", "1.", ".5G", "٤GB", "9" * 30, "8388608TiB"])
def test_what_is_no_size_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^memory ") as caught:
        parse_size(text, "memory")
    assert caught.value.arguments == ("memory",)


@given(st.integers(0, 2**63 - 1))
def test_a_bare_number_is_bytes(size: int) -> None:
    assert parse_size(str(size), "memory") == size


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("50MB/s", 50e6),
        ("50 MB/s", 50e6),
        ("10Gbit/s", 1.25e9),
        ("1gbit", 1.25e8),
        ("1MiB/s", 1 << 20),
        (7.0, 7),
        (7, 7),
    ],
)
def test_a_speed_is_a_size_a_second_or_as_networks_are_sold_bits(text: str | float, speed: float) -> None:
    assert parse_speed(text, "bandwidth") == speed


@pytest.mark.parametrize("text", ["", "fast", "0", "0MB/s", "-1MB/s", "1MB/h", "1e400"])
def test_what_is_no_speed_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^bandwidth ") as caught:
        parse_speed(text, "bandwidth")
    assert caught.value.arguments == ("bandwidth",)


@pytest.mark.parametrize(("text", "seconds"), [("80ms", 0.08), ("1.5 s", 1.5), ("2min", 120), ("0", 0), (0.25, 0.25)])
def test_a_time_is_a_number_and_a_unit(text: str | float, seconds: float) -> None:
    assert parse_seconds(text, "latency") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "ms", "-1s", "5 MB", "1e3", "nan"])
def test_what_is_no_time_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^latency is a time"):
        parse_seconds(text, "latency")


def test_figures_have_as_many_digits_as_say_something() -> None:
    assert [mega(size) for size in (0, 1, 12_345, 949_999, 12_340_000, 5e9)] == [
        "0", "<0.001", "0.012", "0.95", "12.3", "5,000.0"]  # fmt: skip
    assert (megabytes(12_340_000), speed(9_000_000, 2)) == ("12.3 MB", "4.5 MB/s")
