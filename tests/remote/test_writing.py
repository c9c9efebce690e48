"""Objects that are written to a real S3 server: whole or not at all, by one run at a time, whatever breaks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.places import lease, uploads
from gristmill.places.door import place_at
from gristmill.places.remote import Remote

SECRET = "the-secret-of-the-tests"
LARGE = bytes(range(256)) * (20 << 12)  # 20 MiB: three parts


@pytest.fixture
def there(proxy: Any, request: pytest.FixtureRequest) -> Iterator[Remote]:
    """An object that is not there yet."""
    place = Remote(f"s3://corpus/written/{abs(hash(request.node.name))}/a.bin")
    yield place
    proxy.begin()
    place.remove()


def written(place: Remote, data: bytes) -> None:
    with place.writing() as file:
        file.write(data)


@pytest.mark.parametrize("data", [b"", b"some", LARGE])
def test_an_object_appears_when_all_of_it_is_there(there: Remote, data: bytes) -> None:
    with there.writing() as file:
        file.write(data)
        assert not there.exists()
    assert there.read() == data and there.size() == len(data)
    there.write("text")
    assert there.read() == b"text"
    there.append(b" and more")
    assert there.read() == b"text and more"
    there.remove()
    there.remove()
    assert not there.exists()


def test_what_ends_badly_leaves_the_object_as_it_was(there: Remote) -> None:
    there.write("before")
    with pytest.raises(TypeError), there.writing() as file:
        file.writelines([LARGE, None])  # type: ignore[list-item]
    assert there.read() == b"before" and place_at(there.path.rpartition("/")[0]).names() == ["a.bin"]


@pytest.mark.parametrize("fault", ["500", "503", "429", "408", "cut", "half", "expired"])
def test_a_part_that_fails_is_sent_again(there: Remote, proxy: Any, fault: str) -> None:
    proxy.begin(lambda number, method: fault if number % 4 == 2 and number < 12 else None)
    written(there, LARGE)
    proxy.begin()
    assert there.read() == LARGE


def test_an_upload_that_is_given_up_is_given_up_at_the_server(
    there: Remote, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_STORAGE", '{"s3://corpus": {"deadline": 0.5}}')
    proxy.begin(lambda number, method: "500" if method == "PUT" else None)
    with pytest.raises(EngineError, match=r"a\.bin cannot be written \(the server answers 500"):
        written(there, LARGE)
    assert any(request.startswith("DELETE") for request in proxy.requests)
    proxy.begin()
    assert not there.exists()


def test_objects_of_one_bucket_are_copied_by_the_server(there: Remote, proxy: Any, tmp_path: Path) -> None:
    there.write(LARGE)
    other = Remote(there.path + ".copy")
    proxy.begin()
    assert other.link(there) is False
    assert not any(request.startswith("GET") for request in proxy.requests)
    assert other.read() == LARGE
    here = place_at(tmp_path / "here.bin")
    here.copy(other)
    assert (tmp_path / "here.bin").read_bytes() == LARGE
    other.copy(place_at(tmp_path / "here.bin"))
    assert other.read() == LARGE
    other.remove()


def test_an_array_is_filled_and_appears(there: Remote) -> None:
    with there.filling(10_000_000) as data:
        data[:] = np.arange(len(data)) % 251
    assert np.array_equal(np.frombuffer(there.read(), np.uint8), np.arange(10_000_000) % 251)


def test_large_objects_have_parts_of_which_there_are_ten_thousand_at_most() -> None:
    assert uploads.part_size(100) == uploads.PART
    assert -(-(1 << 40) // uploads.part_size(1 << 40)) <= 10_000


def test_http_is_read_only(server: Any) -> None:
    with pytest.raises(EngineError, match="http addresses are read only"):
        place_at(f"http://127.0.0.1:{server.http}/a").write("no")


def test_a_bucket_that_does_not_exist_is_told_in_a_sentence(there: Remote, proxy: Any) -> None:
    proxy.begin(lambda number, method: "no bucket")
    with pytest.raises(ConfigError, match="a bucket that does not exist"):
        there.write("some")


def test_credentials_that_are_refused_are_told_without_them(there: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(EngineError, match=r"a\.bin cannot be written \(the server refuses these credentials\)") as told:
        written(there, LARGE)
    assert "not-the-secret" not in str(told.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def test_a_stream_reads_ahead_and_tells_of_an_object_that_was_replaced(there: Remote, proxy: Any) -> None:
    written(there, LARGE)
    with there.open() as file:
        assert file.read() == LARGE
        file.seek(5 << 20)
        assert file.read(300) == LARGE[5 << 20 : (5 << 20) + 300]
    proxy.begin()
    with there.open() as file:
        file.read(10)
    assert len([request for request in proxy.requests if request.startswith("GET")]) == 1
    with there.open() as file:
        file.read(10)
        written(there, LARGE[::-1])
        with pytest.raises(OSError, match="replaced while it was read"):
            file.read()


# Locks.


def test_one_run_alone_holds_a_lock(there: Remote) -> None:
    lock = Remote(there.path + ".lock")
    with lock.lock(wait=False):
        assert lock.is_lock()
        with pytest.raises(BlockingIOError, match=r"process \d+ on .*, since"), Remote(lock.path).lock(wait=False):
            pass
    assert not lock.exists()
    with lock.lock(wait=False):
        pass


def test_a_lock_of_a_process_that_was_killed_is_taken_over_at_once(there: Remote) -> None:
    code = (
        f"import time\nfrom gristmill.places.remote import Remote\nwith Remote({there.path!r}).lock(wait=False):\n"
        "    print('held', flush=True)\n    time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError), there.lock(wait=False):
            pass
        holder.kill()
    began = time.monotonic()
    with there.lock(wait=False):
        assert time.monotonic() - began < lease.LEASE / 2
    assert not there.exists()


def test_a_lock_of_another_machine_is_taken_over_when_it_is_not_renewed(
    there: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE", 2.5)
    elsewhere = lease.Holder("elsewhere/1/2", 7, "8", "2026-01-01 00:00 UTC", "n")
    there.write(elsewhere.to_bytes())
    with there.lock(wait=False):
        pass
    there.write(elsewhere.to_bytes())
    over = threading.Event()

    def renew() -> None:
        for number in range(100):
            if over.wait(0.5):
                return
            there.write(lease.replace(elsewhere, renewed=number).to_bytes())

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        with pytest.raises(BlockingIOError, match="process 7 on elsewhere, since 2026"), there.lock(wait=False):
            pass
    finally:
        over.set()
        renewing.join()


def test_who_lost_a_lock_is_told_and_leaves_that_of_the_other(there: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWED", 0.2)
    other = lease.Holder("elsewhere/1/2", 7, "8", "2026-01-01 00:00 UTC", "n")

    def lose() -> None:
        with there.lock(wait=False):
            there.write(other.to_bytes())
            time.sleep(1.5)

    with pytest.raises(EngineError, match="taken over by another run"):
        lose()
    assert there.read() == other.to_bytes()


def test_a_lock_is_renewed_while_it_is_held_and_an_answer_that_was_lost_loses_no_lock(
    there: Remote, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEWED", 0.1)
    proxy.begin(lambda number, method: "lost" if number % 3 == 0 and method == "PUT" else None)
    with there.lock(wait=False):
        time.sleep(1.5)
        found = lease.Holder.of(there.read())
        assert found is not None and found.renewed > 2
    proxy.begin()
    assert not there.exists()


def test_what_is_no_lock_of_ours_is_left_alone(there: Remote) -> None:
    there.write("of somebody")
    with pytest.raises(ConfigError, match="no lock that Gristmill made"), there.lock(wait=False):
        pass
    assert there.read() == b"of somebody" and not there.is_lock()
