"""A recipe: all that decides the bytes of a store, as data. Unknown keys are errors.

out: data/corpus
sources:
  - {name: web, paths: ["raw/web/*.jsonl"], text: text, id: id}
tokenizer: gpt2
store: {tokens_per_shard: 100000000, val_fraction: 0.005}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class StoreOptions:
    """How the store is laid out: tokens a shard at most, and the share of documents that go to val."""

    tokens_per_shard: int = 100_000_000
    val_fraction: float = 0.005

    def __post_init__(self) -> None:
        if not isinstance(self.tokens_per_shard, int) or self.tokens_per_shard < 1:
            raise ConfigError(f"tokens_per_shard must be a whole number above 0, not {self.tokens_per_shard!r}.")
        if not 0 <= self.val_fraction < 1:
            raise ConfigError(f"val_fraction is a share from 0 to below 1, not {self.val_fraction!r}.")


@dataclass(frozen=True)
class Recipe:
    """Everything is optional but sources and out. normalize and dedup are kept for the rules that are still to come."""

    out: str
    sources: Sequence[SourceOptions]
    seed: int = 0
    tokenizer: str = "gpt2"
    eos: int | None = None
    store: StoreOptions = field(default_factory=StoreOptions)
    on_error: str = "raise"

    def __post_init__(self) -> None:
        if not self.sources:
            raise ConfigError("A recipe needs sources: files, folders or patterns to read.")
        if self.on_error not in ("raise", "skip"):
            raise ConfigError(f"on_error is 'raise' or 'skip', not {self.on_error!r}.")
        object.__setattr__(self, "sources", tuple(_source(source) for source in self.sources))
        if isinstance(self.store, Mapping):
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
    return from_mapping(SourceOptions, value, "a source of the recipe") if isinstance(value, Mapping) else value


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from its YAML file; paths in it are relative to the working directory."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"The recipe {path} cannot be read ({error.strerror}).") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"The recipe {path} is not YAML: {error}.") from error
    for key in _NOT_YET:
        if isinstance(values, Mapping) and values.get(key):
            raise ConfigError(f"The recipe {path} asks for {key!r}, which this version cannot do yet.")
    return from_mapping(Recipe, values, f"the recipe {path}")
