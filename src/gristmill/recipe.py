"""A recipe: all that decides the bytes of a store, as data. Unknown keys are errors; `gristmill init` writes one.

out: data/corpus
sources:
  - {name: web, paths: ["raw/web/*.jsonl.zst"], text: text, id: id}
clean: {unicode: nfc}
filters:
  - gopher_quality: {}
dedup:
  - exact: {}
tokenizer: gpt2
store: {tokens_per_shard: 100000000, val_fraction: 0.005}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, TypeVar

from gristmill.core.arguments import PathLike, as_mapping
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.options import Options, check_fields, content, from_mapping
from gristmill.core.values import OWN, Count, Seed, check_kinds, fits, shown
from gristmill.curate.base import Rule
from gristmill.curate.clean import CleanOptions
from gristmill.curate.decontaminate import DecontaminateOptions
from gristmill.curate.dedup.exact import Exact
from gristmill.curate.dedup.index import index_fingerprint
from gristmill.curate.dedup.lines import Lines
from gristmill.curate.dedup.near import Near
from gristmill.curate.rules import content as rule_content
from gristmill.curate.rules import make_rule
from gristmill.places.door import as_address, as_target, place_at
from gristmill.places.storage import StorageOptions, as_storage
from gristmill.sources.base import Format

T = TypeVar("T")
Dedup = Exact | Lines | Near
_DEDUPS: dict[str, type[Dedup]] = {"exact": Exact, "lines": Lines, "near": Near}
_MIX_UNITS = ("documents", "tokens")
_COMPRESSIONS = ("none", "zstd")
_KINDS = "a Recipe, a dict or the path of a YAML file"


@dataclass(frozen=True)
class SourceOptions:
    """Where a source's files are and how documents are found in them; `priority` is for dedup's keep rule."""

    name: Annotated[str, OWN]
    paths: Annotated[Sequence[str], OWN]
    text: str = "text"
    id: str = "id"
    fields: Annotated[Sequence[str], OWN] = ()
    documents: str = "file"
    format: str | None = None
    encoding: str = "utf-8"
    priority: int = 0

    def __post_init__(self) -> None:
        if not (fits(self.name, str) and self.name):
            raise ConfigError(f"A source's name must be text, not {self.name!r}.")
        object.__setattr__(self, "paths", tuple(os.fspath(path) for path in self._path_list()))
        check_fields(self, f"source {self.name!r}")
        fields = (self.fields,) if isinstance(self.fields, str) else self.fields
        check_kinds({"fields": fields}, {"fields": Sequence[str]}, f"source {self.name!r}")
        object.__setattr__(self, "fields", tuple(fields))
        _ = self.layout  # its own checks

    def _path_list(self) -> Sequence[PathLike]:
        paths = [self.paths] if isinstance(self.paths, str | os.PathLike) else self.paths
        fit = isinstance(paths, Sequence) and paths and all(isinstance(path, str | os.PathLike) for path in paths)
        if not fit:
            raise ConfigError(f"Source {self.name!r} needs paths: a list of files, folders or patterns.")
        return paths

    @property
    def layout(self) -> Format:
        """How its files are read."""
        return Format(self.text, self.id, tuple(self.fields), self.documents, self.format, self.encoding)


@dataclass(frozen=True)
class StoreOptions:
    """How the store is laid out: tokens a shard at most, the share of documents that go to val, zstd or none."""

    tokens_per_shard: Annotated[int, OWN] = 100_000_000
    val_fraction: Annotated[float, OWN] = 0.005
    compression: str = "none"

    def __post_init__(self) -> None:
        if not fits(self.tokens_per_shard, Count) or self.tokens_per_shard < 1:
            raise ConfigError(
                f"tokens_per_shard must be a whole number above 0, not {self.tokens_per_shard!r}.",
                arguments="tokens_per_shard",
            )
        if not fits(self.val_fraction, float) or not 0 <= self.val_fraction < 1:
            raise ConfigError(
                f"val_fraction is a share from 0 to below 1, not {self.val_fraction!r}.", arguments="val_fraction"
            )
        if self.compression not in _COMPRESSIONS:
            raise ConfigError(f"compression is 'none' or 'zstd', not {self.compression!r}.")


@dataclass(frozen=True)
class MixOptions:
    """A mix fixed when the store is made: `target` documents or tokens of both splits, by weight of source."""

    weights: Annotated[Mapping[str, float], OWN]
    target: Annotated[int, OWN]
    unit: str = "documents"

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise ConfigError("mix needs weights: a mapping of source names to shares.")
        if not fits(self.weights, Mapping[str, float]) or any(weight < 0 for weight in self.weights.values()):
            raise ConfigError(f"The weights of a mix are numbers of 0 or more: {shown(dict(self.weights))}.")
        if abs(sum(self.exact_weights.values(), Fraction(-1))) > Fraction(1, 10**6):
            raise ConfigError(f"The weights of a mix sum to 1, not {float(sum(self.exact_weights.values()))}.")
        if not fits(self.target, Count) or self.target < 1:
            raise ConfigError(f"The target of a mix is a whole number above 0, not {shown(self.target)}.")
        if self.unit not in _MIX_UNITS:
            raise ConfigError(f"The unit of a mix is 'documents' or 'tokens', not {self.unit!r}.")

    @property
    def exact_weights(self) -> dict[str, Fraction]:
        """The weights as their decimal text says."""
        return {name: Fraction(str(weight)) for name, weight in self.weights.items()}


@dataclass(frozen=True)
class Recipe:
    """Everything is optional but sources and out; `clean=None`, `dedup=()` and the like turn a part off."""

    out: Annotated[str, OWN]
    sources: Annotated[Sequence[SourceOptions], OWN]
    seed: Seed = 0
    clean: CleanOptions | None = field(default_factory=CleanOptions)
    filters: Annotated[Sequence[Rule], OWN] = ()
    dedup: Annotated[Sequence[Dedup], OWN] = field(default_factory=lambda: (Exact(),))
    decontaminate: DecontaminateOptions | None = None
    tokenizer: str = "gpt2"
    eos: Count | None = None
    mix: MixOptions | None = None
    shuffle: bool = False
    store: StoreOptions = field(default_factory=StoreOptions)
    on_error: str = "raise"
    storage: Annotated[Mapping[str, StorageOptions], OWN] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.sources or not isinstance(self.sources, Sequence) or isinstance(self.sources, str):
            raise ConfigError("A recipe needs sources: a list of {name: ..., paths: [...]}.")
        if not isinstance(self.out, str | os.PathLike) or not os.fspath(self.out):
            raise ConfigError(f"out must name the folder of the new store, not {shown(self.out)}.")
        check_fields(self, "the recipe")
        if self.on_error not in ("raise", "skip"):
            raise ConfigError(f"on_error is 'raise' or 'skip', not {self.on_error!r}.")
        self._set("out", os.fspath(as_target("out", self.out)))
        sources = (_made(SourceOptions, source, "one of the recipe's sources") for source in self.sources)
        self._set("sources", tuple(sources))
        self._set("store", _made(StoreOptions, self.store, "the recipe's store"))
        self._set("clean", _made(CleanOptions, self.clean, "the recipe's clean") if self.clean is not None else None)
        for name, kind in (("mix", MixOptions), ("decontaminate", DecontaminateOptions)):
            self._set(name, _made(kind, value, f"the recipe's {name}") if (value := getattr(self, name)) else None)
        filters = (rule if hasattr(rule, "judge") else make_rule(*_named(rule, "filters"))
                   for rule in _listed(self.filters, "filters"))  # fmt: skip
        self._set("filters", tuple(filters))
        self._set("dedup", tuple(map(_dedup, _listed(self.dedup, "dedup"))))
        self._set("storage", _storage(self.storage))
        self._check_names()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_names(self) -> None:
        """Sources by name once each; the same for dedup; a mix of sources that exist, with the same fields."""
        names = [source.name for source in self.sources]
        if len(set(names)) < len(names):
            raise ConfigError(f"Two sources have the same name ({', '.join(names)}): list the paths of both in one.")
        kinds = [rule.name for rule in self.dedup]
        if len(set(kinds)) < len(kinds):
            raise ConfigError(f"dedup names a rule twice: {', '.join(kinds)}.")
        if self.mix:
            self._check_mix(names, self.mix.weights)
        for rule in self.filters:  # what one reads of a document beside its text must be carried by some source
            column = getattr(rule, "field", None)
            if isinstance(column, str) and column not in ("id", "path", "source", *self.fields):
                raise ConfigError(f"filter {rule.name}: no source carries the field {column!r}: add it to its fields.")

    def _check_mix(self, names: Sequence[str], weights: Mapping[str, float]) -> None:
        """Every weight is a source's, and every source has one."""
        for name in weights:
            if name not in names:
                raise ConfigError(f"The mix weighs {name!r}, which is no source{did_you_mean(name, names)}.")
        for name in names:
            if name not in weights:
                raise ConfigError(f"The mix says nothing of source {name!r}: give it a weight, 0 to leave it out.")

    @property
    def fields(self) -> tuple[str, ...]:
        """The carried fields of all sources, in the order in which they are first named."""
        return tuple(dict.fromkeys(name for source in self.sources for name in source.fields))

    @property
    def content(self) -> dict[str, object]:
        """The recipe for the manifest: what shapes bytes, free of the paths that a machine happens to have."""
        sources = [_without_paths(source) for source in self.sources]
        return {
            "seed": self.seed,
            "sources": sources,
            "clean": content(self.clean) if self.clean else None,
            "filters": [rule_content(rule) for rule in self.filters],
            "dedup": [{rule.name: dedup_content(rule)} for rule in self.dedup],
            "decontaminate": _without_paths(self.decontaminate) if self.decontaminate else None,
            "tokenizer": Path(self.tokenizer).name,
            "eos": self.eos,
            "mix": content(self.mix) if self.mix else None,
            "shuffle": self.shuffle,
            "store": content(self.store),
            "on_error": self.on_error,
        }


def dedup_content(rule: Dedup) -> dict[str, object]:
    """What a dedup rule's answers depend on: an index counts by its content."""
    index = rule.index if isinstance(rule, Near) else None
    return {**content(rule), **({"index": index_fingerprint(as_address("index", index))} if index else {})}


def _without_paths(options: SourceOptions | DecontaminateOptions) -> dict[str, object]:
    return {key: value for key, value in content(options).items() if key != "paths"}


def _made(cls: type[Options], value: object, where: str) -> Options:
    return value if isinstance(value, cls) else from_mapping(cls, value, where)


def _listed(values: Sequence[T] | None, key: str) -> Sequence[T]:
    """A list of rules, or none for a null."""
    if values is None:
        return ()
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        raise ConfigError(f"{key} is a list, each entry a rule with its options: - name: {{...}}.")
    return values


def _storage(given: Mapping[str, object]) -> dict[str, StorageOptions]:
    """How addresses are reached, by their prefix; it shapes no byte, and is in no manifest."""
    said: dict[str, object] = as_mapping(
        "storage", given or {}, "a mapping of addresses (s3://bucket) to their options"
    )
    return {address: as_storage(address, options) for address, options in said.items()}


def _named(value: object, key: str) -> tuple[str, Mapping[str, object]]:
    """A rule as YAML spells it: its name alone, or one key with options."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, options),) = value.items()
        return str(name), {} if options is None else options
    raise ConfigError(f"An entry of {key} is one rule with its options, - name: {{...}}, not {shown(value)}.")


def _dedup(value: object) -> Dedup:
    if isinstance(value, Dedup):
        return value
    name, options = _named(value, "dedup")
    if name not in _DEDUPS:
        raise ConfigError(f"There is no dedup {name!r}{did_you_mean(name, _DEDUPS)}: it knows {', '.join(_DEDUPS)}.")
    return from_mapping(_DEDUPS[name], options, f"dedup {name!r}")


def as_recipe(recipe: object) -> Recipe:
    """A recipe as Python may have it: the object, a dict with the keys that YAML has, or the path of its file."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Mapping):
        return recipe_from(dict(recipe), "the recipe")
    return read_recipe(as_address("recipe", recipe, _KINDS))


def read_recipe(path: PathLike) -> Recipe:
    """A recipe from its YAML file; paths in it are relative to the working directory."""
    return recipe_from(_values(path), f"the recipe {path}")


def recipe_values(recipe: object) -> dict[str, object]:
    """The keys of a recipe that may not be whole yet: of a dict, or of the YAML file at a path."""
    return dict(recipe) if isinstance(recipe, Mapping) else _values(as_address("recipe", recipe, _KINDS))


def recipe_from(values: dict[str, object], where: str) -> Recipe:
    """A recipe of its keys."""
    for key in ("clean", "dedup"):
        if values.get(key, {}) in (None, False, "none"):
            values[key] = None if key == "clean" else ()
    return from_mapping(Recipe, values, where)


def _values(path: PathLike) -> dict[str, object]:
    from gristmill.core.yaml_values import parse_yaml  # recipes made in Python need no YAML

    try:
        text = place_at(path).read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The recipe {path} cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    values = parse_yaml(text, f"The recipe {path}")
    if not isinstance(values, dict):
        raise ConfigError(f"The recipe {path} must be a mapping with sources and out.")
    return values
