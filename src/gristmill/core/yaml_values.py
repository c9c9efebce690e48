"""YAML that says one thing only: a key that is there twice, or names that unfold without end, are errors."""

from __future__ import annotations

import re
from collections.abc import Hashable

import yaml

from gristmill.core.errors import ConfigError
from gristmill.core.values import shown

# What anchors unfold to: a few lines of them can stand for more values than there is memory.
_MOST_VALUES, _DEEPEST = 1_000_000, 50
# NUL and lone surrogates, by escapes: no file can be named so.
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")


def parse_yaml(text: str, what: str) -> object:
    """The value of a YAML text."""
    try:
        value = yaml.load(text, Loader=_Loader)
        _count(value, 0, 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # 31 February, a number of 5,000 digits: ValueError
        raise ConfigError(f"{what} is not YAML that can be used: {' '.join(str(error).split())}.") from error
    return value


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                problem = f"the key {shown(key.value)} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            if name:
                seen.add(name)
        return super().construct_mapping(node, deep)


def _count(value: object, count: int, depth: int) -> int:
    """How many values there are, those before it included; an error where there are too many."""
    if count > _MOST_VALUES or depth > _DEEPEST:
        raise ValueError(f"it unfolds to more than {_MOST_VALUES:,} values, or {_DEEPEST} one inside another")
    if isinstance(value, str) and _NO_TEXT.search(value):
        raise ValueError("it holds a character that no name or text can have")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    for item in value if isinstance(value, list | tuple | set) else ():
        count = _count(item, count, depth + 1)
    return count + 1
