"""A JSON file that carries a sum of itself."""

from __future__ import annotations

import json

import pytest

from gristmill.core.seal import is_sealed, sealed


@pytest.mark.parametrize("values", [{"a": 1}, {"text": 'ü\n"', "list": [1, {"sum": 2}], "none": None}])
def test_a_sealed_file_is_json_with_its_sum_as_the_last_key(values: dict[str, object]) -> None:
    text = sealed(values)
    assert is_sealed(text.encode())
    found = json.loads(text)
    assert list(found) == [*values, "sum"] and {**values, "sum": found["sum"]} == found


def test_a_file_that_differs_by_any_bit_or_byte_is_not_sealed() -> None:
    data = sealed({"a": 1, "b": "two"}).encode()
    for at in range(len(data)):
        assert not is_sealed(data[:at]) and not is_sealed(data[at + 1 :])
        for bit in range(8):
            assert not is_sealed(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
    assert not is_sealed(data + b"\n") and not is_sealed(b"")
