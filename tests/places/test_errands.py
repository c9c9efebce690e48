"""Messages between a forked process and the one that fetches for it: lengths, JSON, bytes, and errors as they were."""

from __future__ import annotations

import io

import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.places import errands


def test_messages_come_back_whole_and_a_cut_one_is_the_end() -> None:
    file = io.BytesIO()
    errands._send(file, [1, "read", "s3://b/ö", [0, 5]], b"\0\1" * 1000)
    errands._send(file, [2, None])
    whole = file.getvalue()
    stream = io.BytesIO(whole)
    assert errands._received(stream) == ([1, "read", "s3://b/ö", [0, 5]], b"\0\1" * 1000)
    assert errands._received(stream) == ([2, None], b"") and errands._received(stream) is None
    assert errands._received(io.BytesIO(whole[:100])) is None


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(2, "No such object", "s3://b/a"), ConfigError("Say what."), PermissionError(13, "no", "s3://b")],
)
def test_errors_are_those_that_were_raised(error: Exception) -> None:
    told = errands._error(*errands._told(error))  # type: ignore[arg-type]
    assert type(told) is type(error) and str(told) == str(error)


def test_any_other_error_is_one_of_the_machine() -> None:
    assert isinstance(errands._error(*errands._told(ValueError("odd"))), EngineError)  # type: ignore[arg-type]


def test_a_helper_that_ends_is_told_to_all_who_wait() -> None:
    helper = errands.Errands()
    helper._process.kill()
    helper._process.wait()
    for _ in range(3):
        with pytest.raises(EngineError, match="has ended"):
            helper.ask("names", "s3://b/a")
