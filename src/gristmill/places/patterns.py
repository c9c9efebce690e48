"""Names of files as people write them: `~`, lists joined by `::`, and braces.

expand_names("~/train-{0000..0099}.tar")    # a hundred names
expand_names("{web,books}/a.txt::b.txt")    # three

What exists is never taken apart: a file whose name really holds braces or `::` is named by its name.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Sequence

from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError
from gristmill.places.door import kind_of, local_path

_MOST = 1_000_000
_RANGE = re.compile(r"(-?\d{1,18}|[A-Za-z])\.\.(-?\d{1,18}|[A-Za-z])(?:\.\.(-?\d{1,18}))?", re.ASCII)
_SHOWN = 3


def expand_names(given: PathLike) -> list[str]:
    """The names that one name stands for, in its order; whether they exist is another question."""
    name = local_path(os.fspath(given))
    for part in name.split("::"):
        kind_of(part)
    if not _is_pattern(name) or _exists(name):
        return [name]
    if "::" in name:
        return [each for part in name.split("::") if part for each in expand_names(part)]
    home = os.path.expanduser(name)
    return [home] if _exists(home) else expand_braces(home)


def _is_pattern(name: str) -> bool:
    return name.startswith("~") or "::" in name or "{" in name


def _exists(name: str) -> bool:
    """Whether there is a file of this very name, or one that its wildcards match."""
    return os.path.lexists(name) or (glob.has_magic(name) and any(glob.iglob(name, recursive=True)))


def refuse_missing(given: PathLike, missing: Sequence[str], whose: str = "") -> None:
    """Say which of the files that `given` stands for are not there."""
    if not missing:
        return
    if list(missing) == [os.fspath(given)]:
        raise ConfigError(f"{given!r}{whose} names no file.")
    more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
    raise ConfigError(
        f"{given!r}{whose} names {len(missing):,} files that are not there: {', '.join(missing[:_SHOWN])}{more}."
    )


def expand_braces(text: str) -> list[str]:
    """Every text that `{a,b}` and `{00..12}` in a text stand for; braces that hold neither stay as they are."""
    for start in (i for i, letter in enumerate(text) if letter == "{"):
        stop = _closing(text, start)
        choices = None if stop is None else _choices(text[start + 1 : stop])
        if choices is not None and stop is not None:
            rests = expand_braces(text[stop + 1 :])
            _check_count(text, len(choices) * len(rests))
            return [text[:start] + choice + rest for choice in choices for rest in rests]
    return [text]


def _closing(text: str, start: int) -> int | None:
    """Where the brace that opens at `start` closes, if it does."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return None


def _choices(inside: str) -> list[str] | None:
    """What stands between braces, one by one; None where it is neither a list nor a range."""
    parts = _split_at_commas(inside)
    if len(parts) > 1:
        return [choice for part in parts for choice in expand_braces(part)]
    found = _RANGE.fullmatch(inside)
    return _range(inside, found[1], found[2], int(found[3] or 1)) if found else None


def _split_at_commas(inside: str) -> list[str]:
    """The parts of a list, whose own braces are left whole."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _range(text: str, first: str, last: str, step: int) -> list[str] | None:
    """Numbers or letters from `first` to `last`, both included; as wide as the wider one if one begins with 0."""
    if first.isalpha() != last.isalpha():
        return None
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = max(abs(step), 1) * (1 if high >= low else -1)
    numbers = range(low, high + (1 if step > 0 else -1), step)
    _check_count(text, len(numbers))
    if first.isalpha():
        return [chr(number) for number in numbers]
    padded = any(end.lstrip("-").startswith("0") and len(end.lstrip("-")) > 1 for end in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in numbers]


def _check_count(text: str, count: int) -> None:
    if count > _MOST:
        raise ConfigError(f"The braces of {text!r} stand for {count:,} names, above {_MOST:,}: use a folder or a *.")


def matches(names: list[str], pattern: list[str]) -> bool:
    """Whether a path matches a pattern part by part; `**` stands for any number of parts."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(matches(names[i:], pattern[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])
