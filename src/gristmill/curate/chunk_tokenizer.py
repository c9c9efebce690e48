"""What spaCy 3.8's English tokenizer does with a chunk, compiled; lazily imported, as Numba is.

A chunk is worked on as characters codes[i:j]; where a token begins, cuts[k] is set. What is not covered here is given
up, and left to Python: long chunks, overlapping emoticons, addresses in scripts with digits of their own.
"""

from __future__ import annotations

from typing import Any

from numba import types

from gristmill.core.compiled import compiled
from gristmill.core.kernels.slots import HASH_MAP, key_of, slot_of
from gristmill.core.kernels.types import BYTES, HASHES
from gristmill.core.kernels.utf8 import decode
from gristmill.curate.spacy_rules import (
    AFTER_POINT,
    BEFORE_LAST_POINT,
    BEFORE_POINT,
    CAPITAL,
    LETTER,
    MAX_SPECIAL,
    PREFIX,
    SEPARATOR,
    SUFFIX,
)

# Whether to be used at all, then the fields of SpacyRules: classes, specials, phrases, after_digit.
RULES = types.Tuple((types.boolean, BYTES, HASH_MAP, HASH_MAP, HASHES))

MAX_CHARS = 256
_LONGEST_UNIT = 6


@compiled
def _slot(chunk: Any, members: Any, i: int, j: int) -> Any:
    """The slot of characters [i, j) in a hash set."""
    data, _, places, _ = chunk
    return slot_of(members, key_of(data, places[i], places[j]))


@compiled
def _begins(chunk: Any, cases: Any, i: int, j: int) -> Any:
    """Where the tokens of [i, j) begin if it is one of these special cases, bit k for character i + k; else 0."""
    return cases[1][_slot(chunk, cases[0], i, j)] if j - i <= MAX_SPECIAL else 0


@compiled
def _cut(cuts: Any, i: int, j: int, begins: int) -> None:
    """Let the tokens of [i, j) begin where the bits are set, and the next one at j."""
    for k in range(i, j):
        cuts[k] = (begins >> (k - i)) & 1
    cuts[j] = True


@compiled
def _cut_special(chunk: Any, specials: Any, i: int, j: int) -> Any:
    """Whether [i, j) is a special case, which is then cut."""
    begins = _begins(chunk, specials, i, j)
    if begins:
        _cut(chunk[3], i, j, begins)
    return begins != 0


@compiled
def _is_digit(code: int) -> Any:
    return 0x30 <= code <= 0x39


@compiled
def _points(codes: Any, i: int, j: int) -> Any:
    """How many points stand at i."""
    k = i
    while k < j and codes[k] == 0x2E:
        k += 1
    return k - i


@compiled
def _prefix(codes: Any, i: int, j: int, classes: Any) -> Any:
    """The length of what is split off in front of [i, j)."""
    code = codes[i]
    if code == 0x2E:
        points = _points(codes, i, j)
        return points if points > 1 else 0
    if code == 0x2B:
        return 0 if i + 1 < j and _is_digit(codes[i + 1]) else 1
    if classes[code] & PREFIX:
        return 1
    if (code == 0x41 or code == 0x43) and i + 1 < j and codes[i + 1] == 0x24:
        return 2
    if code == 0x55 and i + 2 < j and codes[i + 1] == 0x53 and codes[i + 2] == 0x24:
        return 3
    return 0


@compiled
def _last_point(codes: Any, i: int, j: int, classes: Any) -> Any:
    """The length of the points to split off at the end of [i, j), which ends in one."""
    k = j
    while k > i and codes[k - 1] == 0x2E:
        k -= 1
    if j - k > 1:
        return j - k
    if k == i:
        return 0
    if classes[codes[k - 1]] & BEFORE_LAST_POINT:
        return 1
    if k - 1 > i and classes[codes[k - 1]] & CAPITAL and classes[codes[k - 2]] & CAPITAL:
        return 1
    # Degrees: 20°C.
    return 1 if k - 1 > i and codes[k - 2] == 0xB0 and _is_degree(codes[k - 1]) else 0


@compiled
def _is_degree(code: int) -> Any:
    """Whether this is one of FfCcKk."""
    folded = code | 0x20
    return code < 0x80 and (folded == 0x66 or folded == 0x63 or folded == 0x6B)


@compiled
def _suffix(chunk: Any, i: int, j: int, classes: Any, after_digit: Any) -> Any:
    """The length of what is split off at the end of [i, j): the longest that a rule allows."""
    codes = chunk[1]
    if i == j:
        return 0
    for size in range(min(_LONGEST_UNIT, j - i - 1), 0, -1):
        if _is_digit(codes[j - size - 1]) and after_digit[_slot(chunk, after_digit, j - size, j)] != 0:
            return size
    code = codes[j - 1]
    if code == 0x2E:
        return _last_point(codes, i, j, classes)
    if j - i > 1:
        before = codes[j - 2]
        if (code == 0x73 or code == 0x53) and (before == 0x27 or before == 0x2019):
            return 2
        if code == 0x2026 and before == 0x2026:
            return 2
    return 1 if classes[code] & SUFFIX else 0


@compiled
def _infix(codes: Any, k: int, i: int, j: int, classes: Any) -> Any:
    """The length of what separates at k inside [i, j), 0 if nothing does."""
    code = codes[k]
    if code == 0x2E and _points(codes, k, j) > 1:
        return _points(codes, k, j)
    if classes[code] & SEPARATOR:
        return 1
    if k == i or k + 1 >= j:
        return 0
    before, after = codes[k - 1], codes[k + 1]
    if code in (0x2B, 0x2D, 0x2A, 0x5E) and _is_digit(before) and (_is_digit(after) or after == 0x2D):
        return 1
    if code == 0x2E:
        return 1 if classes[before] & BEFORE_POINT and classes[after] & AFTER_POINT else 0
    if code == 0x2C:
        return 1 if classes[before] & LETTER and classes[after] & LETTER else 0
    if not (classes[before] & LETTER or _is_digit(before)):
        return 0
    if code == 0x3A or code == 0x3C or code == 0x3E or code == 0x3D or code == 0x2F:
        return 1 if classes[after] & LETTER else 0
    return _hyphens(codes, k, j, classes)


@compiled
def _hyphens(codes: Any, k: int, j: int, classes: Any) -> Any:
    """The length of the hyphens at k that a letter follows: up to three -, up to two —, one – or ~."""
    code = codes[k]
    if code == 0x2D:
        most = 3
    elif code == 0x2014:
        most = 2
    elif code == 0x2013 or code == 0x7E:
        most = 1
    else:
        return 0
    for size in range(1, most + 1):
        if k + size >= j:
            return 0
        if classes[codes[k + size]] & LETTER:
            return size
        if codes[k + size] != code:
            return 0
    return 0


@compiled
def _is_host_character(code: int) -> Any:
    folded = code | 0x20
    return _is_digit(code) or 0x61 <= folded <= 0x7A or code == 0x2D or code == 0x5F or 0xA1 <= code <= 0xFFFF


@compiled
def _is_understood(code: int) -> Any:
    """Whether a character is in blocks without digits of their own, which spaCy's pattern takes for digits."""
    return code < 0x600 or 0x1E00 <= code < 0x3000


@compiled
def _address(codes: Any, i: int, j: int, classes: Any) -> Any:
    """Whether spaCy takes [i, j) for an address: 1 yes, 0 no, -1 not known here."""
    points, understood = 0, True
    for k in range(i, j):
        points += codes[k] == 0x2E and k + 1 < j
        understood &= _is_understood(codes[k])
    if points == 0:
        return 0
    begin = _after_scheme(codes, i, j)
    if not understood or begin < 0:
        return -1
    # A host may stand in front, after a scheme, and after every @, which ends a user's name.
    if _is_host(codes, i, j, classes) or (begin > i and _is_host(codes, begin, j, classes)):
        return 1
    for k in range(i + 1, j):
        if codes[k] == 0x40 and _is_host(codes, k + 1, j, classes):
            return 1
    return 0


@compiled
def _after_scheme(codes: Any, i: int, j: int) -> Any:
    """What follows `https://` or the like at i: i where there is none, -1 where it holds other letters."""
    k, others = i, False
    while k < j and (_is_host_character(codes[k]) or codes[k] == 0x2B or codes[k] == 0x2E):
        others |= codes[k] >= 0x80
        k += 1
    if k - i >= 2 and k + 2 < j and codes[k] == 0x3A and codes[k + 1] == 0x2F and codes[k + 2] == 0x2F:
        return -1 if others else k + 3
    return i


@compiled
def _is_host(codes: Any, i: int, j: int, classes: Any) -> Any:
    """Whether [i, j) is a name or the number of a public host, then perhaps a port and a path."""
    number, name = _after_number(codes, i, j), _after_name(codes, i, j, classes)
    if number > i and _is_port_and_path(codes, number, j):
        return True
    return name > i and _is_port_and_path(codes, name, j)


@compiled
def _after_name(codes: Any, i: int, j: int, classes: Any) -> Any:
    """The end of the host's name at i, labels and points and a last label of small letters; i where there is none."""
    begin = k = i
    while k < j and (codes[k] == 0x2E or _is_host_character(codes[k])):
        if codes[k] == 0x2E:
            if not _is_label(codes, begin, k):
                return i
            begin = k + 1
        k += 1
    if begin == i or not 2 <= k - begin <= 63:
        return i
    for c in range(begin, k):
        # A small letter, since no other letter may stand before a point that separates.
        if not (classes[codes[c]] & LETTER and classes[codes[c]] & BEFORE_POINT):
            return i
    return k


@compiled
def _after_number(codes: Any, i: int, j: int) -> Any:
    """The end of the public IPv4 address at i, i where there is none."""
    first, second, k = 0, 0, i
    for place in range(4):
        begin, value = k, 0
        while k < j and _is_digit(codes[k]) and k - begin < 4:
            value, k = 10 * value + codes[k] - 0x30, k + 1
        outer = place == 0 or place == 3
        least, most = (1 if outer else 0), (223 if place == 0 else 254 if place == 3 else 255)
        zero = k > begin and codes[begin] == 0x30
        if k == begin or not least <= value <= most or (zero and (outer or k - begin > 2)):
            return i
        first, second = (value, second) if place == 0 else (first, value) if place == 1 else (first, second)
        if place < 3:
            if k == j or codes[k] != 0x2E:
                return i
            k += 1
    private = first == 10 or first == 127 or (first == 172 and 16 <= second <= 31)
    return i if private or (first == 169 and second == 254) or (first == 192 and second == 168) else k


@compiled
def _is_label(codes: Any, begin: int, end: int) -> Any:
    """1 to 64 characters that neither begin nor end in - or _."""
    if not 1 <= end - begin <= 64:
        return False
    first, last = codes[begin], codes[end - 1]
    return first != 0x2D and first != 0x5F and last != 0x2D and last != 0x5F


@compiled
def _is_port_and_path(codes: Any, k: int, j: int) -> Any:
    if k < j and codes[k] == 0x3A:
        digits = 0
        while k + 1 + digits < j and _is_digit(codes[k + 1 + digits]):
            digits += 1
        if not 2 <= digits <= 5:
            return False
        k += 1 + digits
    return k == j or codes[k] == 0x2F or codes[k] == 0x3F or codes[k] == 0x23


@compiled
def _cut_affixes(chunk: Any, j: int, rules: Any) -> Any:
    """Split off prefixes and suffixes of [0, j), then the special case if there is one; the rest as (i, j)."""
    _, classes, specials, _, after_digit = rules
    _, codes, _, cuts = chunk
    i, size = 0, -1
    while i < j and j - i != size:
        if _cut_special(chunk, specials, i, j):
            return j, j
        size = j - i
        front = _prefix(codes, i, j, classes)
        if front and i + front < j and _cut_special(chunk, specials, i + front, j):
            return j, j
        back = _suffix(chunk, i + front, j, classes, after_digit)
        if back and i < j - back and _cut_special(chunk, specials, i, j - back):
            return j, j
        i, j = i + front, j - back
        cuts[i] = cuts[j] = True
    return i, j


@compiled
def _cut_infixes(codes: Any, cuts: Any, i: int, j: int, classes: Any) -> None:
    k = i
    while k < j:
        size = _infix(codes, k, i, j, classes)
        # What separates at the very start does not.
        if size and k > i:
            cuts[k] = cuts[k + size] = True
        k += max(size, 1)


@compiled
def _find_phrase(chunk: Any, i: int, size: int, phrases: Any) -> Any:
    """The end of the two or more tokens from i on that read as a special case: i if none do, -1 if several ends do."""
    cuts, begins, found = chunk[3], 1, i
    for j in range(i + 1, min(size, i + MAX_SPECIAL) + 1):
        if cuts[j]:
            if begins > 1 and _begins(chunk, phrases, i, j) == begins:
                if found > i:
                    return -1
                found = j
            begins |= 1 << (j - i)
    return found


@compiled
def _cut_phrases(chunk: Any, size: int, rules: Any) -> Any:
    """Cut anew the tokens that read as a special case (an emoticon); False where two such overlap."""
    specials, phrases, cuts = rules[2], rules[3], chunk[3]
    begin = end = 0
    for i in range(size + 1):
        # A phrase is cut when the tokens that begin inside it have been looked at.
        if end > begin and i == end:
            _cut(cuts, begin, end, _begins(chunk, specials, begin, end))
        if i < size and cuts[i]:
            found = _find_phrase(chunk, i, size, phrases)
            if found != i:
                if found < 0 or i < end:
                    return False
                begin, end = i, found
    return True


@compiled
def cut_chunk(data: Any, begin: int, end: int, rules: Any, codes: Any, places: Any, cuts: Any) -> Any:
    """Find the tokens of data[begin:end]: the number of its characters, or 0 where that is not known here."""
    known, classes = rules[0], rules[1]
    size = 0
    while begin < end:
        if size == MAX_CHARS or not known:
            return 0
        codes[size], length = decode(data, begin)
        places[size], cuts[size] = begin, False
        size, begin = size + 1, begin + length
    places[size] = end
    cuts[0] = cuts[size] = True
    chunk = (data, codes, places, cuts)
    i, j = _cut_affixes(chunk, size, rules)
    address = _address(codes, i, j, classes)
    if address == 0:
        _cut_infixes(codes, cuts, i, j, classes)
    return 0 if address < 0 or not _cut_phrases(chunk, size, rules) else size
