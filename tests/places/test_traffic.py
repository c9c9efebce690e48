"""Totals are counted from many threads, and told since any moment."""

from __future__ import annotations

import threading

from gristmill.places.traffic import Traffic


def test_what_was_added_since_a_moment_is_told() -> None:
    traffic = Traffic()
    traffic.add(requests=2, fetched_bytes=10)
    before = traffic.figures()
    threads = [threading.Thread(target=lambda: [traffic.add(requests=1) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traffic.again()
    since = traffic.since(before)
    assert (since["requests"], since["fetched_bytes"], since["retries"]) == (2000, 0, 1)
