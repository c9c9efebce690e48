from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import StoreError
from gristmill.places.memory import view
from gristmill.store.maps import Maps


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Forty files of 1,000 bytes, each full of its own number."""
    for i in range(40):
        (tmp_path / f"{i}").write_bytes(bytes([i]) * 1000)
    return [str(tmp_path / f"{i}") for i in range(40)]


def maps_of(files: list[str], bound: int) -> Maps:
    return Maps(len(files), files.__getitem__, lambda i: 1000, bound)


def mapped(maps: Maps) -> int:
    return int((maps.addresses != 0).sum())


def first_bytes(addresses: np.ndarray[tuple[int], np.dtype[np.int64]], which: list[int]) -> list[int]:
    return [int(view(int(addresses[i]), "u1", 1000)[999]) for i in which]


def test_more_files_than_the_bound_are_read_and_never_more_than_it_kept(files: list[str]) -> None:
    maps = maps_of(files, bound=8)
    for i in [*range(40), *range(39, -1, -1)]:
        with maps.leased(np.array([i])) as addresses:
            assert first_bytes(addresses, [i]) == [i]
        assert mapped(maps) <= 8


def test_the_longest_unused_are_unmapped_first(files: list[str]) -> None:
    maps = maps_of(files, bound=3)
    for i in (0, 1, 2, 0, 3):
        with maps.leased(np.array([i])):
            pass
    assert np.flatnonzero(maps.addresses).tolist() == [0, 2, 3]


def test_what_is_leased_stays_mapped_whatever_others_need(files: list[str]) -> None:
    maps = maps_of(files, bound=2)
    with maps.leased(np.array([5])) as addresses:
        before = int(addresses[5])
        for i in range(20, 40):
            with maps.leased(np.array([i])):
                pass
        assert int(addresses[5]) == before and first_bytes(addresses, [5]) == [5]


def test_a_lease_of_more_than_the_bound_is_served_and_shrinks_afterwards(files: list[str]) -> None:
    maps = maps_of(files, bound=4)
    with maps.leased(np.arange(10)) as addresses:
        assert first_bytes(addresses, list(range(10))) == list(range(10))
    for i in range(10, 40):
        with maps.leased(np.array([i])):
            pass
    assert mapped(maps) <= 10


def test_within_the_bound_everything_stays(files: list[str]) -> None:
    maps = maps_of(files, bound=40)
    for i in range(40):
        with maps.leased(np.array([i, i])):
            pass
    assert mapped(maps) == 40
    maps.ensure(np.array([7]))
    assert maps.addresses[7] != 0


def test_maps_hold_no_descriptors(files: list[str], open_files: Any) -> None:
    maps = maps_of(files, bound=40)
    with maps.leased(np.arange(40)):
        assert mapped(maps) == 40 and not open_files(Path(files[0]).parent)


def test_many_threads_read_through_few_maps(files: list[str]) -> None:
    maps = maps_of(files, bound=6)
    wrong: list[int] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            which = rng.integers(0, 40, 3)
            with maps.leased(which) as addresses:
                wrong.extend(i for i in which.tolist() if first_bytes(addresses, [i]) != [i])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_fork_while_another_thread_holds_the_lock_does_not_hang(files: list[str]) -> None:
    maps = maps_of(files, bound=4)
    with maps.leased(np.array([1])):
        pass
    with maps._lock:
        child = os.fork()
        if child == 0:
            with maps.leased(np.array([2, 30])) as addresses:
                os._exit(0 if first_bytes(addresses, [2, 30]) == [2, 30] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_maps_that_nobody_holds_are_given_back(files: list[str]) -> None:
    maps = maps_of(files, bound=40)
    with maps.leased(np.arange(5)):
        addresses = maps.addresses
    assert addresses.any()
    del maps
    gc.collect()
    assert not addresses.any()


def test_a_file_of_the_wrong_size_or_gone_is_named(files: list[str]) -> None:
    maps = maps_of(files, bound=4)
    Path(files[3]).write_bytes(b"short")
    Path(files[4]).unlink()
    for i, message in ((3, "5 bytes, 1,000 were expected"), (4, "cannot be opened")):
        with pytest.raises(StoreError, match=message), maps.leased(np.array([i])):
            pass


def test_a_failed_lease_leaves_no_lease_behind(files: list[str]) -> None:
    maps = maps_of(files, bound=2)
    Path(files[3]).unlink()
    with pytest.raises(StoreError), maps.leased(np.array([2, 3])):
        pass
    assert int(maps._leases.sum()) == 0
