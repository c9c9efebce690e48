"""What goes is what is needed last, names are read back exactly, and a set never holds more than its share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.places.eviction import (
    OTHERS,
    READ,
    Owner,
    Part,
    part_of,
    set_of,
    sets_for,
    unfinished,
    victims,
    writer_of,
)  # fmt: skip

CONTENT = "0123456789abcdef" * 2
parts = st.builds(
    lambda content, start, size: Part(f"{content:032x}", start, start + size),
    st.integers(0, 2**128 - 1), st.integers(0, 2**50), st.integers(1, 1 << 22),
)  # fmt: skip


@given(parts, st.integers(1, 2**22), st.integers(0, 2**60), st.integers(0, 99))
def test_names_are_read_back_and_are_those_of_one_kind(part: Part, pid: int, began: int, number: int) -> None:
    owner = Owner("00c0ffee", pid, began)
    name = unfinished(part, owner, number)
    assert part_of(part.name) == part and writer_of(name) == (part, owner)
    assert part_of(name) is None and writer_of(part.name) is None


@pytest.mark.parametrize("name", [
    "shard-00000.bin", f"{CONTENT}-0-10.part~", f"{CONTENT[:-1]}-0-10.part", f"{CONTENT}-0-10.part.x.tmp", "notes.txt",
    f"{CONTENT.upper()}-0-10.part", f"x{CONTENT}-0-10.part", f"{CONTENT}-0-10.part\n", ".part", "",
])  # fmt: skip
def test_files_of_others_have_other_names(name: str) -> None:
    assert part_of(name) is None and writer_of(name) is None


@given(
    st.lists(
        st.tuples(parts, st.floats(0, 10) | st.just(OTHERS) | st.just(READ)), max_size=30, unique_by=lambda x: x[0]
    ),
    st.integers(0, 1 << 26),
    st.integers(0, 1 << 24),
)
def test_the_rest_fits_and_waits_no_longer_than_what_goes(
    held: list[tuple[Part, float]], share: int, announced: int
) -> None:
    waits = dict(held)
    gone = victims(list(waits), waits.values(), share, announced)
    rest = [part for part in waits if part not in gone]
    size = sum(part.size for part in rest) + announced
    assert size <= share or not rest
    if gone:  # and no more go than must
        assert size + min(gone, key=waits.__getitem__).size > share or size + gone[-1].size > share
        assert min(waits[part] for part in gone) >= max((waits[part] for part in rest), default=-math.inf)


def test_sets_are_few_enough_to_fill_alike_and_each_part_has_one() -> None:
    assert [sets_for(limit) for limit in (0, 1 << 28, 1 << 33, 1 << 50)] == [1, 1, 32, 1024]
    counts = [0] * 16
    for i in range(4096):
        counts[set_of(Part(CONTENT, i << 20, (i + 1) << 20), 16)] += 1
    assert max(counts) < 1.3 * 256 and min(counts) > 0.7 * 256


class Machine:
    """Processes that share one set, each of which adds in three steps that may be taken in any order among them."""

    def __init__(self, share: int) -> None:
        self.share = share
        self.held: dict[Part, float] = {}
        self.announced: dict[int, Part] = {}
        self.writing: dict[int, Part] = {}

    def announce(self, process: int, part: Part) -> None:
        self.announced[process] = part

    def look(self, process: int, wait: float) -> None:
        """Make room for all that is announced, or give up."""
        part = self.announced[process]
        held = {**{each: w for each, w in self.held.items() if each != part}, part: wait}
        coming = sum(each.size for each in self.announced.values()) - part.size
        gone = victims(list(held), held.values(), self.share, coming)
        if part in gone:
            del self.announced[process]
            return
        for each in gone:
            self.held.pop(each, None)
        self.writing[process] = part

    def write(self, process: int, wait: float) -> None:
        self.held[self.writing.pop(process)] = wait
        del self.announced[process]

    def size(self) -> int:
        return sum(part.size for part in {*self.held, *()}) + sum(part.size for part in self.writing.values())


@given(st.data(), st.integers(1, 12))
def test_the_limit_holds_however_processes_come_between_each_other(data: st.DataObject, blocks: int) -> None:
    machine = Machine(blocks * (1 << 20))
    for number in range(60):
        process, wait = data.draw(st.integers(0, 3)), data.draw(st.floats(0, 9))
        if process in machine.writing:
            machine.write(process, wait)
        elif process in machine.announced:
            machine.look(process, wait)
        else:
            machine.announce(process, Part(CONTENT, number << 20, (number << 20) + data.draw(st.integers(1, 1 << 20))))
        assert machine.size() <= machine.share
