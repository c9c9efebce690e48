"""Searches that go on while pages are read: one at a time, each in a thread, ended when another begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from gristmill.core.errors import GristmillError

Work = TypeVar("Work", bound=Iterable[object])
_KEPT = 8


class Job(Generic[Work]):
    """A search on its way; `work` has its figures so far, `error` the sentence if it failed."""

    def __init__(self, work: Work) -> None:
        self.work, self.error, self.stopped = work, "", False
        self.seconds = 0.0
        self._stop, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            for _ in self.work:
                self.seconds = time.monotonic() - begun
                if self._stop.is_set():
                    self.stopped = True
                    break
        except GristmillError as error:
            self.error = str(error)
        except OSError as error:
            self.error = f"The machine failed: {error.strerror or error}."
        finally:
            self._done.set()

    @property
    def done(self) -> bool:
        """Whether it has come to its end, or was ended."""
        return self._done.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        self._done.wait(seconds)

    def stop(self) -> None:
        """End it after the piece at which it is."""
        self._stop.set()


class Jobs:
    """The last searches by what was looked for: asked again, they answer at once."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, Job[Iterable[object]]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Iterable[object]], again: bool = True) -> Job[Iterable[object]]:
        """The search for `key`, begun now if there is none, or `again` if it was stopped; any other is ended then."""
        with self._lock:
            known = self._jobs.get(key)
            if known is None or (again and known.stopped):
                work = make()
                self._stop_all()
                self._jobs.pop(key, None)
                self._jobs = dict(list(self._jobs.items())[1 - _KEPT :])
                self._jobs[key] = Job(work)
            return self._jobs[key]

    def stop(self) -> None:
        """End whatever is on its way."""
        with self._lock:
            self._stop_all()

    def _stop_all(self) -> None:
        for key in [key for key, job in self._jobs.items() if not job.done]:
            self._jobs[key].stop()
