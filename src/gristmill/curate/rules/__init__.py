"""The rules of `filters:`, by the names that recipes use. A new rule is a file here, a line in RULES and a test.

In: a batch of documents. Out: for each, KEEP or why it goes. A rule's module is imported when a recipe asks for it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
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


def make_rule(name: str, options: Mapping[str, object] | None = None) -> Rule:
    """The rule that a recipe names, with its options; None or {} are its defaults."""
    if name not in RULES:
        raise ConfigError(f"No filter {name!r}{did_you_mean(name, RULES)}.")
    module, _, of = RULES[name].partition(":")
    cls = getattr(importlib.import_module(f"{__name__}.{module}"), of)
    made: Rule = from_mapping(cls, {} if options is None else options, f"filter {name}")
    return made


def content(rule: Rule) -> dict[str, object]:
    """What a rule's answers depend on: its name, its options, and the versions of its models, lists and functions."""
    frozen: Any = rule
    names = [option.name for option in dataclasses.fields(frozen) if option.init]
    options = {name: _without_folder(getattr(rule, name)) for name in names}
    return {"name": rule.name, "options": options, "versions": getattr(rule, "versions", dict)()}


def _without_folder(value: object) -> object:
    """A file by its name alone: what it holds is among the versions, where it lies is the machine's affair."""
    is_path = isinstance(value, str) and (Path(value).is_file() or Path(value).is_absolute())
    return Path(str(value)).name if is_path else value
