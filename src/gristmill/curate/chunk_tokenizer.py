"""What spaCy 3.8's English tokenizer does with a chunk, compiled; lazily imported, as Numba is.

A chunk is worked on as characters codes[i:j]; where a token begins, cuts[k] is set. What is not covered here is given
up (False), and spaCy itself is asked: special cases next to affixes (don't,), long chunks, and all but plain hosts
where a point might make an address.
"""

from __future__ import annotations

from typing import Any

from numba import types

from gristmill.core.compiled import leaf
from gristmill.curate.hash_sets import HASHES, key_of, slot_of
from gristmill.curate.spacy_rules import (
    AFTER_POINT,
    BEFORE_LAST_POINT,
    BEFORE_POINT,
    CAPITAL,
    LETTER,
    PREFIX,
    SEPARATOR,
    SUFFIX,
)
from gristmill.curate.word_kernels import BYTES, decode

# Whether to be used at all, then the fields of SpacyRules: classes, specials, phrases, after_digit.
RULES = types.Tuple((types.boolean, BYTES, HASHES, HASHES, HASHES))

MAX_CHARS = 256
# No special case is longer, in bytes.
MAX_SPECIAL = 48
_LONGEST_UNIT = 6


@leaf
def _has(chunk: Any, members: Any, i: int, j: int) -> Any:
    """Whether characters [i, j) are in a hash set."""
    data, _, places, _ = chunk
    if places[j] - places[i] > MAX_SPECIAL:
        return False
    return members[slot_of(members, key_of(data, places[i], places[j]))] != 0


@leaf
def _is_digit(code: int) -> Any:
    return 0x30 <= code <= 0x39


@leaf
def _points(codes: Any, i: int, j: int) -> Any:
    """How many points stand at i."""
    k = i
    while k < j and codes[k] == 0x2E:
        k += 1
    return k - i


@leaf
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


@leaf
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


@leaf
def _is_degree(code: int) -> Any:
    """Whether this is one of FfCcKk."""
    folded = code | 0x20
    return code < 0x80 and (folded == 0x66 or folded == 0x63 or folded == 0x6B)


@leaf
def _suffix(chunk: Any, i: int, j: int, classes: Any, after_digit: Any) -> Any:
    """The length of what is split off at the end of [i, j): the longest that a rule allows."""
    codes = chunk[1]
    if i == j:
        return 0
    for size in range(min(_LONGEST_UNIT, j - i - 1), 0, -1):
        if _is_digit(codes[j - size - 1]) and _has(chunk, after_digit, j - size, j):
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


@leaf
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


@leaf
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


@leaf
def _is_host_character(code: int) -> Any:
    folded = code | 0x20
    return _is_digit(code) or 0x61 <= folded <= 0x7A or code == 0x2D or code == 0x5F


@leaf
def _address(codes: Any, i: int, j: int, classes: Any) -> Any:
    """Whether spaCy takes [i, j) for an address: 1 yes, 0 no, -1 not known here."""
    names, numbers, beyond = False, 0, False
    for k in range(i, j):
        beyond |= codes[k] >= 0x80 or codes[k] == 0x40 or (codes[k] == 0x3A and k + 1 < j and codes[k + 1] == 0x2F)
        if codes[k] == 0x2E and k + 1 < j:
            numbers += not classes[codes[k + 1]] & LETTER
            names |= k + 2 < j and classes[codes[k + 1]] & LETTER != 0 and classes[codes[k + 2]] & LETTER != 0
    if not names and numbers < 3:
        return 0
    if beyond or numbers >= 3:
        return -1
    return _host(codes, i, j)


@leaf
def _host(codes: Any, i: int, j: int) -> Any:
    """1 for labels and points, a last label of small letters, then perhaps a port and a path; else 0."""
    begin = k = i
    labels = 0
    while k < j and (codes[k] == 0x2E or _is_host_character(codes[k])):
        if codes[k] == 0x2E:
            if not _is_label(codes, begin, k):
                return 0
            labels, begin = labels + 1, k + 1
        k += 1
    if labels == 0 or not 2 <= k - begin <= 63:
        return 0
    for c in range(begin, k):
        if not 0x61 <= codes[c] <= 0x7A:
            return 0
    return 1 if _is_port_and_path(codes, k, j) else 0


@leaf
def _is_label(codes: Any, begin: int, end: int) -> Any:
    """1 to 64 characters that neither begin nor end in - or _."""
    if not 1 <= end - begin <= 64:
        return False
    first, last = codes[begin], codes[end - 1]
    return first != 0x2D and first != 0x5F and last != 0x2D and last != 0x5F


@leaf
def _is_port_and_path(codes: Any, k: int, j: int) -> Any:
    if k < j and codes[k] == 0x3A:
        digits = 0
        while k + 1 + digits < j and _is_digit(codes[k + 1 + digits]):
            digits += 1
        if not 2 <= digits <= 5:
            return False
        k += 1 + digits
    return k == j or codes[k] == 0x2F or codes[k] == 0x3F or codes[k] == 0x23


@leaf
def _cut_affixes(chunk: Any, j: int, rules: Any) -> Any:
    """Split off prefixes and suffixes of [0, j); the rest as (i, j), or (-1, -1) where a special case shows itself."""
    _, classes, specials, _, after_digit = rules
    _, codes, _, cuts = chunk
    i, size = 0, -1
    while i < j and j - i != size:
        if _has(chunk, specials, i, j):
            return -1, -1
        size = j - i
        front = _prefix(codes, i, j, classes)
        if front and i + front < j and _has(chunk, specials, i + front, j):
            return -1, -1
        back = _suffix(chunk, i + front, j, classes, after_digit)
        if back and i < j - back and _has(chunk, specials, i, j - back):
            return -1, -1
        i, j = i + front, j - back
        cuts[i] = cuts[j] = True
    return i, j


@leaf
def _cut_infixes(codes: Any, cuts: Any, i: int, j: int, classes: Any) -> None:
    k = i
    while k < j:
        size = _infix(codes, k, i, j, classes)
        # What separates at the very start does not.
        if size and k > i:
            cuts[k] = cuts[k + size] = True
        k += max(size, 1)


@leaf
def _has_phrase(chunk: Any, size: int, phrases: Any) -> Any:
    """Whether two or more tokens in a row read as a special case, which spaCy would then apply."""
    _, _, places, cuts = chunk
    for i in range(size):
        if cuts[i]:
            inner = 0
            for j in range(i + 1, size + 1):
                if places[j] - places[i] > MAX_SPECIAL:
                    break
                if cuts[j]:
                    if inner and _has(chunk, phrases, i, j):
                        return True
                    inner += 1
    return False


@leaf
def cut_chunk(data: Any, begin: int, end: int, rules: Any, codes: Any, places: Any, cuts: Any) -> Any:
    """Find the tokens of data[begin:end]: the number of its characters, or 0 where spaCy must be asked."""
    known, classes, _, phrases, _ = rules
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
    if i < 0:
        return 0
    address = _address(codes, i, j, classes)
    if address == 0:
        _cut_infixes(codes, cuts, i, j, classes)
    return 0 if address < 0 or _has_phrase(chunk, size, phrases) else size
