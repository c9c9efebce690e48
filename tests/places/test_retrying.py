"""What is asked for again, after which waits, and when it is given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gristmill.places import retrying
from gristmill.places.retrying import Patience, may_pass, reason_of, retried


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retrying, "time", made)
    return made


@pytest.mark.parametrize(("error", "passes"), [
    (OSError("connection reset"), True), (Exception("Server returned non-2xx status code: 503 Slow Down"), True),
    (Exception("status code: 429 Too Many Requests"), True), (Exception("status code: 416 Range"), False),
    (Exception("status code: 403 Forbidden"), False), (Exception("status code: 501 Not Implemented"), False),
    (FileNotFoundError("gone"), False), (PermissionError("no"), False),
])  # fmt: skip
def test_only_what_may_pass_is_asked_for_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes


def test_the_reason_of_a_failure_names_no_address() -> None:
    asked = "Generic S3 error: Error performing GET https://host/x?sig=secret in 2ms - "
    answered = Exception(f"{asked}Server returned non-2xx status code: 503 Service Unavailable: <?xml ...\n<Error>")
    assert reason_of(answered) == "the server answers 503 Service Unavailable"
    assert reason_of(Exception(f"{asked}HTTP error: error sending request\n\nDebug")) == "error sending request"
    assert reason_of(Exception("")) == "no answer"


def test_waits_grow_to_their_bound_and_are_random_from_nothing_on(clock: Clock) -> None:
    answers = iter([*[OSError("cut")] * 12, None])

    def request() -> str:
        if error := next(answers):
            raise error
        return "bytes"

    patience = Patience(deadline=1000, first=0.1, longest=2)
    assert retried(request, patience, passes=may_pass) == "bytes"
    bounds = [min(2, 0.1 * 2**tried) for tried in range(12)]
    assert all(0 <= wait <= bound for wait, bound in zip(clock.slept, bounds, strict=True))
    assert len(set(clock.slept)) == 12


def test_the_deadline_is_kept_and_the_last_error_is_told(clock: Clock) -> None:
    def numbered() -> Iterator[OSError]:
        yield from (OSError(f"cut {number}") for number in range(10_000))

    errors = numbered()

    def request() -> str:
        raise next(errors)

    with pytest.raises(OSError, match=r"cut \d+"):
        retried(request, Patience(deadline=30), passes=may_pass)
    assert 15 < clock.now <= 30


def test_what_cannot_pass_is_told_at_once(clock: Clock) -> None:
    def request() -> str:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError):
        retried(request, Patience(), passes=may_pass)
    assert not clock.slept
