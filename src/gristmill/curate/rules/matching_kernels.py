"""Find listed words and phrases in UTF-8 text, compiled. Importing this module imports Numba (0.2 s).

The list is a trie over small-letter characters: a hash table from (node, character) to node. A document is read once;
a walk down the trie starts where a listed word may begin, which a table of all characters tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, types, uint8, uint64, void

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import GOLDEN
from gristmill.core.kernels.slots import slot_of
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import decode

# What a node may be: the end of a word that stands alone, of one that stands anywhere. What a character may be: the
# first of such a word, in either case; a part of words.
ALONE, ANYWHERE, IN_WORD = 1, 2, 4

# A link is a node and, in the lowest 21 bits, a character; none is 0, since no word begins with the character 0.
CHARACTER_BITS = 21

# The characters; the hash table's keys and nodes; what each node is; small letters by character.
_LIST = types.Tuple((uint8[::1], uint64[::1], int32[::1], uint8[::1], int32[::1]))


@compiled
def _key(link: Any) -> Any:
    """Another number for each link, never 0, whose low bits depend on all of it: half of what `finalise` costs."""
    mixed = link * GOLDEN
    return mixed ^ (mixed >> np.uint64(32))


@entry(void(int64[::1], int64[::1], uint64[::1], int32[::1]))
def fill(links: Any, targets: Any, keys: Any, nodes: Any) -> None:
    """Put the links of a trie (node and character, and the nodes they lead to) into the hash table."""
    for i in range(links.size):
        key = _key(np.uint64(links[i]))
        slot = slot_of(keys, key)
        keys[slot], nodes[slot] = key, targets[i]


@compiled
def _child(keys: Any, nodes: Any, node: Any, code: int) -> Any:
    """The node after `node` by the character `code`, or -1."""
    slot = slot_of(keys, _key(np.uint64(node) << np.uint64(CHARACTER_BITS) | np.uint64(code)))
    return nodes[slot] if keys[slot] != 0 else -1


@compiled
def _longest(data: Any, at: int, end: int, allowed: int, listed: Any) -> Any:
    """The end of the longest listed word at `at` of the `allowed` kinds, or -1."""
    characters, keys, nodes, kinds, small = listed
    node: Any = 0
    found: Any = np.int64(-1)
    while at < end:
        code, size = decode(data, at)
        node = _child(keys, nodes, node, small[code] if code < small.size else code)
        if node < 0:
            break
        at += size
        kind = kinds[node] & allowed
        if kind & ANYWHERE or (kind & ALONE and (at == end or characters[decode(data, at)[0]] & IN_WORD == 0)):
            found = at
    return found


@compiled
def _count(data: Any, at: int, end: int, characters: Any) -> Any:
    """How many characters are part of words, and whether the last one is."""
    count, inside = 0, False
    while at < end:
        code, size = decode(data, at)
        inside = characters[code] & IN_WORD != 0
        count += inside
        at += size
    return count, inside


@compiled
def _match(data: Any, at: int, end: int, listed: Any) -> Any:
    """As `match`, for one document."""
    characters, total, within, inside = listed[0], 0, 0, False
    first: Any = np.int64(-1)
    last: Any = first
    while at < end:
        code, size = decode(data, at)
        kind: Any = characters[code]
        allowed = kind & (ANYWHERE if inside else ALONE | ANYWHERE)
        stop: Any = _longest(data, at, end, allowed, listed) if allowed else -1
        if stop < 0:
            inside = kind & IN_WORD != 0
            total, at = total + inside, at + size
            continue
        if first < 0:
            first, last = at, stop
        count, inside = _count(data, at, stop, characters)
        total, within, at = total + count, within + count, stop
    return total, within, first, last


@entry(void(BYTES, INTS, _LIST, int64[:, ::1]))
def match(data: Any, offsets: Any, listed: Any, found: Any) -> None:
    """By document: characters in words, those of listed words, and where the first of these begins and ends (or -1).

    Each match is the longest at its place, and the next one begins after it.
    """
    for row in range(found.shape[0]):
        total, within, first, last = _match(data, offsets[row], offsets[row + 1], listed)
        found[row, 0], found[row, 1], found[row, 2], found[row, 3] = total, within, first, last
