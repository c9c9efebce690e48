"""Functions of the user's: found again by their names, known by their sources."""

from __future__ import annotations

import functools

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.functions import called, function_at, path_of, source_digest


def one(x: int) -> int:
    return x


def two(x: int) -> int:
    return x


class Kept:
    @staticmethod
    def inner() -> None: ...


def test_a_function_is_found_again_by_its_path() -> None:
    for function in (one, Kept.inner, functools.reduce):
        assert function_at(path_of(function)) is function
    assert path_of(Kept.inner) == f"{__name__}:Kept.inner"


def test_what_has_no_place_of_its_own_cannot_be_named() -> None:
    def local() -> None: ...

    for function in (lambda: 1, local, functools.partial(one, 1)):
        with pytest.raises(ConfigError, match="top of a module"):
            path_of(function)


@pytest.mark.parametrize("path", ["nowhere_at_all:f", "json:nothing", "json", "", "json:decoder.no"])
def test_a_function_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        function_at(path)


def test_something_else_of_that_name_is_no_function() -> None:
    with pytest.raises(ConfigError, match="is no function"):
        function_at("json:__name__")


def test_the_source_is_what_a_function_is_known_by() -> None:
    assert source_digest(one) != source_digest(two) and source_digest(one) == source_digest(one)
    assert len(source_digest(len)) == 32 and called(functools.partial(one)) == "partial"
