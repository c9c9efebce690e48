"""A recipe: all that decides the bytes of a store, as data. Unknown keys are errors.

out: data/corpus
sources:
  - {name: web, paths: ["raw/web/*.jsonl"], text: text, id: id}
tokenizer: gpt2
store: {tokens_per_shard: 100000000, val_fraction: 0.005}
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gristmill.core.errors import ConfigError
from gristmill.core.options import from_mapping

# Named in the design, built by the issue on the writing half: refused by name rather than as a misspelling.
_NOT_YET = ("clean", "filters", "dedup", "decontaminate", "mix")


@dataclass(frozen=True)
class SourceOptions:
    """Where a source's files are, and which JSONL keys hold text and id."""

    name: str
    paths: Sequence[str]
    text: str = "text"
    id: str = "id"

    def __post_init__(self) -> None:
        paths = [self.paths] if isinstance(self.paths, str | os.PathLike) else self.paths
        if (
            not isinstance(paths, Sequence)
            or not paths
            or not all(isinstance(path, str | os.PathLike) for path in paths)
        ):
            raise ConfigError(f"Source {self.name!r} needs paths: a list of files, folders or patterns.")
        if not (isinstance(self.name, str) and self.name):
            raise ConfigError(f"A source's name must be text, not {self.name!r}.")
        object.__setattr__(self, "paths", tuple(os.fspath(path) for path in paths))


@dataclass(frozen=True)
class StoreOptions:
    """How the store is laid out: tokens a shard at most, and the share of documents that go to val."""

    tokens_per_shard: int = 100_000_000
    val_fraction: float = 0.005

    def __post_init__(self) -> None:
        if not isinstance(self.tokens_per_shard, int) or self.tokens_per_shard < 1:
            raise ConfigError(f"tokens_per_shard must be a whole number above 0, not {self.tokens_per_shard!r}.")
        if not isinstance(self.val_fraction, int | float) or not 0 <= self.val_fraction < 1:
            raise ConfigError(f"val_fraction is a share from 0 to below 1, not {self.val_fraction!r}.")


@dataclass(frozen=True)
class Recipe:
    """Everything is optional but sources and out."""

    out: str
    sources: Sequence[SourceOptions]
    seed: int = 0
    tokenizer: str = "gpt2"
    eos: int | None = None
    store: StoreOptions = field(default_factory=StoreOptions)
    on_error: str = "raise"

    def __post_init__(self) -> None:
        if not self.sources or not isinstance(self.sources, Sequence) or isinstance(self.sources, str):
            raise ConfigError("A recipe needs sources: a list of {name: ..., paths: [...]}.")
        if not isinstance(self.seed, int):
            raise ConfigError(f"seed must be a whole number, not {self.seed!r}.")
        if self.on_error not in ("raise", "skip"):
            raise ConfigError(f"on_error is 'raise' or 'skip', not {self.on_error!r}.")
        object.__setattr__(self, "sources", tuple(_source(source) for source in self.sources))
        names = [source.name for source in self.sources]
        if len(set(names)) < len(names):
            raise ConfigError(f"Two sources have the same name ({', '.join(names)}): list the paths of both in one.")
        if not isinstance(self.store, StoreOptions):
            object.__setattr__(self, "store", from_mapping(StoreOptions, self.store, "the recipe's store"))

    @property
    def content(self) -> dict[str, Any]:
        """The recipe for the manifest: what shapes bytes, free of the paths that a machine happens to have."""
        sources = [{"name": source.name, "text": source.text, "id": source.id} for source in self.sources]
        return {
            "seed": self.seed,
            "sources": sources,
            "tokenizer": Path(self.tokenizer).name,
            "eos": self.eos,
            "store": asdict(self.store),
            "on_error": self.on_error,
        }


def _source(value: Any) -> SourceOptions:
    return value if isinstance(value, SourceOptions) else from_mapping(SourceOptions, value, "a source of the recipe")


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from its YAML file; paths in it are relative to the working directory."""
    values = _values(path)
    for key in _NOT_YET:
        if values.pop(key, None):
            raise ConfigError(f"The recipe {path} asks for {key!r}, which this version cannot do yet.")
    for key in ("out", "sources"):
        if key not in values:
            raise ConfigError(f"The recipe {path} lacks {key!r}.")
    return from_mapping(Recipe, values, f"the recipe {path}")


def _values(path: str | Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The recipe {path} cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The recipe {path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"The recipe {path} must be a mapping with sources and out.")
    return values
