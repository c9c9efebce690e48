"""Requests that may fail and pass the next time: when to ask again, how long to wait, when to give up."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gristmill.core.errors import GristmillError

Result = TypeVar("Result")

# Statuses that a second try may change: time-outs, too many requests, and the server's own trouble but what it lacks.
_PASSING = {408, 425, 429, 500, 502, 503, 504, 507, 509}
_STATUS = re.compile(r"status code: (\d{3})")
_STATUS_LINE = re.compile(r"status code: (\d{3}(?: [A-Za-z]+)*)")


@dataclass(frozen=True)
class Patience:
    """How long one request is tried for: `deadline` seconds in all, and `tries` times at most, if that is given.

    Before try n a random wait of up to `first` x 2^n seconds is made, at most `longest`: full jitter, so that many
    readers that failed together do not come back together.
    """

    deadline: float = 120.0
    tries: int | None = None
    first: float = 0.1
    longest: float = 10.0

    def wait(self, tried: int) -> float:
        """Seconds before another try."""
        return random.uniform(0, min(self.longest, self.first * 2**tried))


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed later: cut connections and time-outs, and statuses that say so."""
    if isinstance(error, GristmillError | FileNotFoundError | PermissionError | NotImplementedError | ValueError):
        return False
    return status_of(error) in (None, *_PASSING) and not is_page(error)


def is_page(error: Exception) -> bool:
    """Whether what answered is no file but a page without a length, as web servers make of a folder."""
    return "Header missing" in str(error)


def expired(error: Exception) -> bool:
    """Whether the server says that credentials have come to their end: others may be there by now."""
    return any(code in str(error) for code in ("ExpiredToken", "TokenRefreshRequired"))


def lacks_bucket(error: Exception) -> bool:
    """Whether the server says that there is no such bucket."""
    return any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound", "bucket does not exist"))


def status_of(error: Exception) -> int | None:
    """The status that a server answered with, if it answered."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def reason_of(error: Exception) -> str:
    """What went wrong, without the address that was asked."""
    if status := _STATUS_LINE.search(str(error)):
        return f"the server answers {status[1]}"
    return str(error).partition("\n")[0].rpartition(" - ")[2].rpartition(": ")[2] or "no answer"


def retried(request: Callable[[], Result], patience: Patience, *, passes: Callable[[Exception], bool]) -> Result:
    """What `request` gives, tried until it gives something, fails for good, or the deadline is over."""
    until = time.monotonic() + patience.deadline
    for tried in itertools.count():
        try:
            return request()
        except Exception as error:
            wait = patience.wait(tried)
            over = time.monotonic() + wait > until or tried + 1 == patience.tries
            if not passes(error) or over:
                raise
            time.sleep(wait)
    raise AssertionError("unreachable")
