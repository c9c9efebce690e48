"""Which files of a full set of the cache go: the ones that are needed last. Names and numbers only, no files.

    3f…e0-400000-501000.part                        bytes [0x400000, 0x501000) of the file whose content is 3f…e0
    3f…e0-400000-501000.part.9c41d2aa-4711-88120-7.tmp   the same while it is being written: by whom, and since when

A part is kept in the set that the hash of its name says, and each set has its share of the limit. Before a byte is
written, a file with the name above is made, and then the set is looked at: it holds what others have announced by then,
so that of two who add at the same time at least one sees both, and what is written is never more than the share.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gristmill.core.hashing import hash64

_PART = re.compile(r"(?P<content>[0-9a-f]{32})-(?P<start>[0-9a-f]{1,16})-(?P<end>[0-9a-f]{1,16})\.part")
_UNFINISHED = re.compile(rf"(?P<part>{_PART.pattern})\.(?P<host>[0-9a-f]{{8}})-(?P<pid>\d+)-(?P<began>\d+)-\d+\.tmp")
SUM_BYTES = 16
# How long a part is not needed, in steps of the plan. What no plan of this process speaks of goes before what it still
# needs, by age; what it has read for this epoch goes first.
OTHERS, READ = 1e12, 2e12
_PAGE = 4096
# A set of parts of 1 MiB is listed in less than a millisecond, and is large enough for chance to fill all sets alike.
_SET_BYTES = 256 << 20
_MOST_SETS = 1024


class Part(NamedTuple):
    """Bytes [start, end) of a file, which is known by its content."""

    content: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """What the file of the cache is called that holds it."""
        return f"{self.content}-{self.start:x}-{self.end:x}.part"

    @property
    def size(self) -> int:
        """What its file takes on a disk, its sum included."""
        return -(-(self.end - self.start + SUM_BYTES) // _PAGE) * _PAGE


class Owner(NamedTuple):
    """Who writes a file: a process of a host, and when that process began, since numbers of processes come again."""

    host: str
    pid: int
    began: int


@functools.lru_cache(maxsize=1 << 14)  # a set is listed for each part that comes into it
def part_of(name: str) -> Part | None:
    """The part that a file of the cache holds; None if the name is not one of the cache's."""
    found = _PART.fullmatch(name)
    return None if found is None else Part(found["content"], int(found["start"], 16), int(found["end"], 16))


def unfinished(part: Part, owner: Owner, number: int) -> str:
    """The name of a part's file while it is being written."""
    return f"{part.name}.{owner.host}-{owner.pid}-{owner.began}-{number}.tmp"


def writer_of(name: str) -> tuple[Part, Owner] | None:
    """What an unfinished file will hold, and who writes it; None if it is not one of the cache's."""
    found = _UNFINISHED.fullmatch(name)
    part = None if found is None else part_of(found["part"])
    if found is None or part is None:
        return None
    return part, Owner(found["host"], int(found["pid"]), int(found["began"]))


def sets_for(limit: int) -> int:
    """Into how many sets a cache of `limit` bytes is divided."""
    return min(max(limit // _SET_BYTES, 1), _MOST_SETS)


def set_of(part: Part, sets: int) -> int:
    """The set that a part belongs to."""
    return hash64(part.name) % sets


def victims(held: Sequence[Part], waits: Iterable[float], share: int, announced: int) -> list[Part]:
    """The parts to remove so that the others and the `announced` bytes fit into `share`: those that wait longest."""
    over, chosen = sum(part.size for part in held) + announced - share, []
    for _, part in sorted(zip(waits, held, strict=True), reverse=True):
        if over <= 0:
            break
        chosen.append(part)
        over -= part.size
    return chosen
