"""Redaction: e-mail addresses, public IP addresses and telephone numbers become placeholders.

A compiled pass finds the few stretches of bytes that could hold a match ('@', three dots between digits, seven
digits, ...); Python's `re` decides on these. What it finds is what it would find in the whole text, since a pattern
matches only bytes that a stretch is made of, and looks at one character beyond.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.texts import Texts

Variant = Literal["gristmill", "datatrove"]
Span = tuple[int, int]

# Dolma's placeholders: not an address that someone may get, and no character of them is part of what is looked for.
PLACEHOLDERS = {"email": "|||EMAIL_ADDRESS|||", "ip": "|||IP_ADDRESS|||", "phone": "|||PHONE_NUMBER|||"}

_DIGITS, _HEX = string.digits, string.hexdigits
_ALPHANUMERIC = _DIGITS + string.ascii_letters
_ATOM_SIGNS = "!#$%&'*+/=?^_`{|}~-"

_OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_LOCAL = "[A-Za-z0-9_%+-]"
_ATOM = rf"[A-Za-z0-9{re.escape(_ATOM_SIGNS)}]"


@dataclass(frozen=True)
class Pattern:
    """A regular expression, the bytes that its matches are made of, and the anchors that each of them has."""

    expression: str
    inside: str
    anchor: str
    after: str
    anchors: int = 1
    accept: Callable[[str], bool] = lambda match: True

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled when first used: recipes are read by commands that redact nothing."""
        return re.compile(self.expression)

    @cached_property
    def roles(self) -> Bytes:
        """What each of the 256 bytes is to the pattern."""
        from gristmill.curate.redact_kernels import AFTER, ANCHOR, INSIDE

        roles = np.zeros(256, np.uint8)
        for characters, role in ((self.inside, INSIDE), (self.anchor, ANCHOR), (self.after, AFTER)):
            roles[list(characters.encode())] |= np.uint8(role)
        return roles

    def spans(self, text: str) -> Iterator[Span]:
        """What of a text goes: characters from, to."""
        return (match.span() for match in self.regex.finditer(text) if self.accept(match[0]))


def is_global(address: str) -> bool:
    """Whether a public host can have this address: private, reserved and malformed ones are no personal data."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


def _is_subscriber(number: str) -> bool:
    """E.164 allows 15 digits with the country's; under 8 there is no full number."""
    return 8 <= sum(character in _DIGITS for character in number) <= 15


# No sign that mark-up puts before an address, and a top level of letters.
_EMAIL = Pattern(
    (
        rf"(?<!{_LOCAL})(?<!{_LOCAL}\.){_LOCAL}++(?:\.{_LOCAL}++)*+@(?:{_LABEL}\.)+[A-Za-z]{{2,}}"
        rf"(?![A-Za-z0-9]|(?:{_LOCAL}|\.)*@)"
    ),
    inside=_ALPHANUMERIC + "._%+-@",
    anchor="@",
    after=_ALPHANUMERIC,
)
# Not a part of a longer number with points, such as a section or a version.
_IPV4 = Pattern(
    rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\w)",
    inside=_DIGITS + ".",
    anchor=".",
    after=_DIGITS,
    anchors=3,
    accept=is_global,
)
# All public IPv6 addresses begin with 2 or 3: without that, `a::b` of a program would be one. Those that end in `::`
# are networks.
_IPV6 = Pattern(
    (
        r"(?<![\w:.])[23][0-9a-fA-F]{3}(?:(?::[0-9a-fA-F]{1,4}){7}|"
        r"(?::[0-9a-fA-F]{1,4}){0,6}::[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,5})(?!\w|:\w)"
    ),
    inside=_HEX + ":",
    anchor=":",
    after=_HEX + ":",
    anchors=2,
    accept=is_global,
)
# With a country's code, or ten digits as North America groups them; digits in one row are more often something else.
_PHONE = Pattern(
    (
        r"(?<![\w+.-])(?:\+[1-9][0-9]{0,2}(?:[ .-]?(?:\([0-9]{1,4}\)|[0-9]{1,5})){2,6}|"
        r"(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4})(?![\w+(]|[.-]\w)"
    ),
    inside=_DIGITS + " ()+.-",
    anchor=_DIGITS,
    after=_DIGITS + " ()+.-",
    anchors=7,
    accept=_is_subscriber,
)

_DATATROVE_EMAIL = Pattern(
    (
        rf"\b{_ATOM}+(?:\.{_ATOM}+)*@(?:(?:{_LABEL}\.)+{_LABEL}|"
        rf"\[(?:{_OCTET}\.){{3}}(?:{_OCTET}|[A-Za-z0-9-]*[A-Za-z0-9]:)\])"
    ),
    inside=_ALPHANUMERIC + _ATOM_SIGNS + ".@[]:",
    anchor="@",
    after=_ALPHANUMERIC + "[",
)
_DATATROVE_IP = dataclasses.replace(_IPV4, expression=rf"(?:{_OCTET}\.){{3}}{_OCTET}")

PATTERNS: dict[str, dict[str, tuple[Pattern, ...]]] = {
    "gristmill": {"email": (_EMAIL,), "ip": (_IPV4, _IPV6), "phone": (_PHONE,)},
    "datatrove": {"email": (_DATATROVE_EMAIL,), "ip": (_DATATROVE_IP,)},
}


def check_redaction(kinds: Sequence[str] | Mapping[str, str], variant: str) -> dict[str, str]:
    """The placeholder of each kind to redact, in the order of PLACEHOLDERS; a list of kinds takes those."""
    if variant not in PATTERNS:
        raise ConfigError(f"clean has no redact_variant {variant!r}{did_you_mean(str(variant), PATTERNS)}.")
    if isinstance(kinds, str) or not isinstance(kinds, Sequence | Mapping):
        raise ConfigError(f"clean's redact is a list such as [email, ip], not {kinds!r}.")
    for kind in kinds:
        if kind not in PATTERNS[variant]:
            raise ConfigError(f"clean cannot redact {kind!r}{did_you_mean(str(kind), PATTERNS[variant])}.")
    given = kinds if isinstance(kinds, Mapping) else {kind: PLACEHOLDERS[kind] for kind in kinds}
    for kind, placeholder in given.items():
        if not isinstance(placeholder, str) or not placeholder:
            raise ConfigError(f"clean's placeholder for {kind} must be text, not {placeholder!r}.")
    return {kind: given[kind] for kind in PLACEHOLDERS if kind in given}


def redact(texts: Texts, kind: str, placeholder: str, variant: Variant) -> Texts:
    """All texts with `placeholder` for each finding of a kind; the same object where there is none.

    Public addresses only (`ipaddress`' is_global), as in datatrove. datatrove takes its placeholders in turn from a
    list, so that a document's text depends on those before it: here there is one.
    """
    for pattern in PATTERNS[variant][kind]:
        texts = _replace(texts, pattern, placeholder)
    return texts


def _replace(texts: Texts, pattern: Pattern, placeholder: str) -> Texts:
    from gristmill.curate.redact_kernels import find_windows, replace

    windows = find_windows(texts.data, texts.offsets, pattern.roles, pattern.anchors)
    spans = _spans(texts, pattern, windows.tolist())
    if not len(spans):
        return texts
    return Texts(*replace(texts.data, texts.offsets, spans, np.frombuffer(placeholder.encode(), np.uint8)))


def _spans(texts: Texts, pattern: Pattern, windows: Iterable[tuple[int, int, int]]) -> Ints:
    """(row, begin, end) in bytes of what the pattern finds in these windows."""
    found = []
    for row, begin, end in windows:
        text = texts.data[begin:end].tobytes().decode()
        # What stands before a match in its window is ASCII, but for a first character of context.
        shift = begin + len(text[:1].encode()) - 1
        found += [(row, first + shift, last + shift) for first, last in pattern.spans(text)]
    return np.array(found, np.int64).reshape(-1, 3)
