"""The cache of a machine: whole or not there, within its limit, and never a file of others removed."""

from __future__ import annotations

import errno
import math
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.arrays import Bytes
from gristmill.core.errors import ConfigError
from gristmill.places.cache import MARKER, SMALLEST, Cache
from gristmill.places.eviction import Owner, Part, unfinished

CONTENT = "ab" * 16
SIZE = SMALLEST


def part(i: int, size: int = SIZE) -> Part:
    return Part(CONTENT, i << 20, (i << 20) + size)


def data(i: int, size: int = SIZE) -> Bytes:
    return np.random.default_rng(i).integers(0, 256, size, dtype=np.uint8)


def soon(parts: Sequence[Part]) -> list[float]:
    """What lies further back in the file is needed later."""
    return [float(each.start) for each in parts]


def unknown(parts: Sequence[Part]) -> list[float]:
    return [math.nan] * len(parts)


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.part*"))


def fill(cache: Cache, numbers: Sequence[int]) -> None:
    for i in numbers:
        assert (cache.add(part(i), data(i), soon) == data(i)).all()


def test_while_there_is_room_nobody_is_asked_when_parts_are_needed(tmp_path: Path) -> None:
    share = part(0).size
    cache, asked = Cache(tmp_path / "c", 4 * share), list[int]()

    def waits(parts: Sequence[Part]) -> list[float]:
        asked.append(len(parts))
        return soon(parts)

    for i in range(6):
        cache.add(part(i), data(i), waits)
    assert asked == [5, 5] and all(cache.get(part(i)) is not None for i in range(4))


def test_a_set_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", 1 << 24)
    for _ in range(2):
        with cache.fetching(part(0)):
            fill(cache, [0])
        shutil.rmtree(next(path for path in (tmp_path / "c").iterdir() if path.is_dir()))
    assert cache.get(part(0)) is None


def test_what_was_added_is_found_by_every_process_and_what_was_not_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", 1 << 24)
    fill(cache, range(5))
    other = Cache(tmp_path / "c", 1 << 24)
    assert all(np.array_equal(other.get(part(i)), data(i)) for i in range(5))  # type: ignore[arg-type]
    assert other.get(part(7)) is None and other.get(part(0, SIZE + 1)) is None
    assert sorted(path.suffix for path in (tmp_path / "c").rglob("*") if path.is_file()) == [".json"] + [".part"] * 5


def test_what_is_needed_last_goes_and_the_limit_holds(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit := 4 * part(0).size)
    fill(cache, [9, 1, 8, 2, 3, 0])
    assert [i for i in range(10) if cache.get(part(i)) is not None] == [0, 1, 2, 3] and used(tmp_path) <= limit
    fill(cache, [5])  # which nothing makes room for, since all others are needed sooner
    assert cache.get(part(5)) is None and cache.get(part(3)) is not None


def test_where_nothing_is_known_of_them_those_kept_longest_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 3 * part(0).size)
    for i in range(3):
        cache.add(part(i), data(i), unknown)
        os.utime(next(tmp_path.rglob(part(i).name)), (1e9 + i, 1e9 + i))
    cache.add(part(3), data(3), unknown)
    assert [i for i in range(4) if cache.get(part(i)) is not None] == [1, 2, 3]


def test_whoever_reads_goes_on_reading_what_was_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 24)
    held = cache.add(part(1), data(1), soon)
    again = cache.get(part(1))
    cache.remove(part(1))
    assert cache.get(part(1)) is None and (held == data(1)).all()
    assert again is not None and (again == data(1)).all() and not again.flags.writeable


@pytest.mark.parametrize("limit", [0, 1, SIZE])
def test_a_limit_below_one_part_keeps_nothing_and_gives_what_came(tmp_path: Path, limit: int) -> None:
    cache = Cache(tmp_path, limit)
    fill(cache, range(3))
    assert used(tmp_path) == 0 and cache.get(part(1)) is None


@pytest.mark.parametrize("harm", ["cut", "empty", "flipped", "longer"])
def test_a_damaged_file_is_found_and_removed(tmp_path: Path, harm: str) -> None:
    cache = Cache(tmp_path, 1 << 24)
    fill(cache, [1])
    path = next(tmp_path.rglob("*.part"))
    whole = path.read_bytes()
    flipped = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    path.write_bytes({"cut": whole[:-4096], "empty": b"", "flipped": flipped, "longer": whole + b"x"}[harm])
    assert cache.get(part(1)) is None and not path.exists()


def test_files_of_others_stay_and_their_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"thesis\.tex.*give an empty folder"):
        Cache(tmp_path / "mine", 1 << 24)
    cache = Cache(tmp_path / "c", 2 * part(0).size)
    fill(cache, [0])
    folder = next((tmp_path / "c").rglob("*.part")).parent
    others = {folder / name: name for name in ("notes.txt", f"{part(1).name}~", "a.tmp", "x.part")}
    for path, text in others.items():
        path.write_text(text)
        os.utime(path, (0, 0))
    fill(cache, range(6))
    assert all(path.read_text() == text for path, text in others.items())
    (tmp_path / "c" / MARKER).write_text("{}")
    with pytest.raises(ConfigError, match="not the mark of a cache"):
        Cache(tmp_path / "c", 1 << 24)


def test_what_killed_processes_left_is_counted_while_they_live_and_removed_after(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 2 * part(0).size)
    fill(cache, [0])
    folder = next(tmp_path.rglob("*.part")).parent
    mine = cache.add.__func__.__globals__["_owner"](os.getpid())  # type: ignore[attr-defined]
    dead, far = Owner(mine.host, 2**22 + 5, 1), Owner("0badcafe", 1, 1)
    names = [unfinished(part(i), owner, 0) for i, owner in enumerate((dead, far, mine), 3)]
    for name in names:
        (folder / name).touch()
        os.utime(folder / name, (0, 0)) if name != names[2] else None
    fill(cache, [1])
    assert [(folder / name).exists() for name in names] == [False, False, True]
    assert cache.get(part(0)) is not None and cache.get(part(1)) is None  # there is room for one beside what is coming
    (folder / names[2]).unlink()
    fill(cache, [0, 1])
    assert cache.get(part(0)) is not None and cache.get(part(1)) is not None


def test_a_full_disk_is_said_once_and_nothing_else_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, 1 << 24)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        fill(cache, [1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fill(cache, [2])
    assert not list(tmp_path.rglob("*.part*"))


def test_one_process_of_a_machine_fetches_and_the_others_wait_for_it(tmp_path: Path) -> None:
    cache, other = Cache(tmp_path, 1 << 24), Cache(tmp_path, 1 << 24)
    began, order = threading.Event(), list[str]()

    def wait() -> None:
        began.set()
        with other.fetching(part(1)):
            order.append("found" if other.get(part(1)) is not None else "missing")

    with cache.fetching(part(1)):
        thread = threading.Thread(target=wait)
        thread.start()
        began.wait(60)
        order.append("added")
        fill(cache, [1])
    thread.join()
    assert order == ["added", "found"]


def test_who_fetches_one_part_waits_for_nobody_who_fetches_another(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 24)
    with cache.fetching(part(1)), cache.fetching(part(2)):
        fill(cache, [1, 2])


def test_who_fetches_several_parts_waits_for_each_and_none_waits_for_ever(tmp_path: Path) -> None:
    fetched, wanted = list[int](), [(1, 2, 3), (3, 1), (2, 3), (2,), (3, 2, 1)]

    def fetch(numbers: tuple[int, ...]) -> None:
        cache = Cache(tmp_path, 1 << 24)
        for _ in range(5):
            with cache.fetching(*map(part, numbers)):
                missing = [i for i in numbers if cache.get(part(i)) is None]
                fetched.extend(missing)
                fill(cache, missing)

    threads = [threading.Thread(target=fetch, args=(numbers,), daemon=True) for numbers in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(fetched) == [1, 2, 3] and not any(thread.is_alive() for thread in threads)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = f"""
import os, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_cache import Cache, Path, part
with Cache(Path({str(tmp_path)!r}), 1 << 24).fetching(part(1)):
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    with Cache(tmp_path, 1 << 24).fetching(part(1)):
        pass


def test_a_process_that_is_forked_while_a_part_is_fetched_does_not_keep_its_lock(tmp_path: Path) -> None:
    cache, (reading, writing) = Cache(tmp_path, 1 << 24), os.pipe()
    with cache.fetching(part(1)):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent has ended it
            os._exit(0)
    fetched = threading.Event()

    def fetch() -> None:
        with cache.fetching(part(1)):
            fetched.set()

    threading.Thread(target=fetch, daemon=True).start()
    try:
        assert fetched.wait(60)
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(reading)


def test_processes_that_make_a_cache_at_the_same_time_agree_on_its_sets(tmp_path: Path) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(Cache(tmp_path / "c", (i + 1) << 30)._sets)) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and [path.name for path in (tmp_path / "c").iterdir()] == [MARKER]
