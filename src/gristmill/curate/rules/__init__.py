"""The rules of `filters:`, by the names that recipes use. A new rule is a file here, a line in RULES and a test.

In: a batch of documents. Out: for each, KEEP or why it goes. A rule's module is imported when a recipe asks for it.
"""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.options import from_mapping
from gristmill.curate.base import Rule

RULES: Mapping[str, str] = {
    "c4": "c4:C4",
    "c4_paragraph": "c4:C4Paragraph",
    "code_quality": "code:CodeQuality",
    "code_ratio": "code:CodeRatio",
    "fasttext": "fasttext:FastText",
    "fineweb": "fineweb:FineWeb",
    "function": "function:UserFunction",
    "gopher_quality": "gopher_quality:GopherQuality",
    "gopher_repetition": "gopher_repetition:GopherRepetition",
    "language": "language:Language",
    "length": "length:Length",
    "profanity": "profanity:Profanity",
    "url": "url:UrlList",
}

_KINDS: Mapping[type, tuple[type, ...]] = {float: (int, float), int: (int,), str: (str,), bool: (bool,)}


def make_rule(name: str, options: Mapping[str, Any] | None = None) -> Rule:
    """The rule that a recipe names, with its options; None or {} are its defaults."""
    if name not in RULES:
        raise ConfigError(f"No filter {name!r}{did_you_mean(name, RULES)}.")
    module, _, of = RULES[name].partition(":")
    cls = getattr(importlib.import_module(f"{__name__}.{module}"), of)
    where = f"filter {name}"
    if isinstance(options, Mapping):
        _check_kinds(cls, options, where)
    made: Rule = from_mapping(cls, {} if options is None else options, where)
    return made


def content(rule: Rule) -> dict[str, Any]:
    """What a rule's answers depend on: its name, its options, and the versions of its models, lists and functions."""
    frozen: Any = rule
    names = [option.name for option in dataclasses.fields(frozen) if option.init]
    options = {name: _without_folder(getattr(rule, name)) for name in names}
    return {"name": rule.name, "options": options, "versions": getattr(rule, "versions", dict)()}


def _without_folder(value: Any) -> Any:
    """A file by its name alone: what it holds is among the versions, where it lies is the machine's affair."""
    return Path(value).name if isinstance(value, str) and Path(value).is_file() else value


def _check_kinds(cls: type, options: Mapping[str, Any], where: str) -> None:
    """Refuse a number as text, a text as a list and the like, before any document is read."""
    for key, hint in typing.get_type_hints(cls).items():
        if key in options and not _fits(options[key], hint):
            raise ConfigError(f"{where}: {key} cannot be {options[key]!r}: it is {_spelt(hint)}.")


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in typing.get_args(hint))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, Sequence) and not isinstance(value, str)
    if hint is type(None):
        return value is None
    return hint not in _KINDS or (isinstance(value, _KINDS[hint]) and isinstance(value, bool) <= (hint is bool))


def _spelt(hint: Any) -> str:
    """A type in a user's words."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "nothing"}
    return " or ".join(words.get(part, "a list") for part in parts)
