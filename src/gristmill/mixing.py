"""A mix of sources in one call: as a store, or as a list in memory.

texts = create_balanced_mix({"wiki": wiki, "web": web}, {"wiki": 0.1, "web": 0.9}, target_size=1000)
create_balanced_mix({"wiki": "raw/wiki", "web": web}, {"wiki": 0.1, "web": 0.9}, 1000, out="data/mixed")
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from gristmill.core.arguments import as_whole
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import derive_key
from gristmill.core.options import from_mapping
from gristmill.core.progress import Progress
from gristmill.order.permute import permute
from gristmill.places.door import as_target
from gristmill.recipe import MixOptions, SourceOptions, as_recipe
from gristmill.run import RunOptions, prepare
from gristmill.sources.base import Mishaps, expand
from gristmill.sources.units import cut_units, read_unit
from gristmill.stages.layout import shares
from gristmill.store.manifest import Manifest

# Files by name (a path, a folder or a pattern; a mapping adds options of a recipe's source), or documents in memory.
Source = str | os.PathLike[str] | Mapping[str, object] | SourceOptions | Iterable[object]


@overload
def create_balanced_mix(
    sources: Mapping[str, Source],
    proportions: Mapping[str, float],
    target_size: int,
    *,
    seed: int = 0,
) -> list[Any]: ...


@overload
def create_balanced_mix(
    sources: Mapping[str, Source],
    proportions: Mapping[str, float],
    target_size: int,
    *,
    out: str | os.PathLike[str],
    unit: str = "documents",
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
    options: RunOptions | None = None,
    **recipe: object,
) -> Manifest: ...


def create_balanced_mix(
    sources: Mapping[str, Source],
    proportions: Mapping[str, float],
    target_size: int,
    *,
    out: str | os.PathLike[str] | None = None,
    unit: str = "documents",
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
    options: RunOptions | None = None,
    **recipe: object,
) -> Manifest | list[object]:
    """`target_size` documents in all, each source by its proportion: sampled by seed where it has more, repeated where
    it has less.

    A source is a path, or a list of documents in memory. Without `out` the documents are returned as a shuffled list,
    just as they are. With `out` they become a store: `unit` may then be "tokens", and `recipe` takes every other key
    of a recipe (which by default cleans texts, and drops equal ones before the mix is drawn).
    """
    mix, seed = _checked_mix(sources, proportions, target_size, unit), as_whole("seed", seed, None)
    out = None if out is None else as_target("out", out)
    if out is None:
        _refuse_without_out(unit=unit != "documents", overwrite=overwrite, options=options, **recipe)
        wanted = [name for name, weight in mix.weights.items() if weight]
        return _mixed({name: _documents(name, sources[name]) for name in wanted}, mix, seed)
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        given = [_as_files(name, source, Path(folder) / str(i)) for i, (name, source) in enumerate(sources.items())]
        made = as_recipe({"out": out, "sources": given, "seed": seed, "mix": mix, **recipe})
        return prepare(made, overwrite=overwrite, progress=progress, options=options)


def _checked_mix(
    sources: Mapping[str, Source], proportions: Mapping[str, float], target_size: int, unit: str
) -> MixOptions:
    """The mix as a recipe has it; every source has a proportion, and every proportion a source."""
    for name, value in (("sources", sources), ("proportions", proportions)):
        if not isinstance(value, Mapping) or not value:
            raise ConfigError(f"{name} is a mapping by the names of the sources, not {type(value).__name__}.")
    for name in proportions:
        if name not in sources:
            raise ConfigError(f"proportions has {name!r}, which is no source{did_you_mean(str(name), sources)}.")
    for name in sources:
        if name not in proportions:
            raise ConfigError(f"The source {name!r} has no proportion: give it one, 0 if it is to be left out.")
    return MixOptions(proportions, as_whole("target_size", target_size), unit)


def _refuse_without_out(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} is for a store: say where it goes by out=, or leave {name} out.")


def _mixed(documents: Mapping[str, Sequence[object]], mix: MixOptions, seed: int) -> list[object]:
    """As a store's mix: each source in an order drawn from the seed, over and over, until its share is full."""
    taken: list[object] = []
    for share in shares(mix, {name: len(found) for name, found in documents.items()}):
        order = _order(share.available, derive_key(seed, "mix", share.source))
        taken += [documents[share.source][order[i % share.available]] for i in range(share.wanted)]
    return [taken[i] for i in _order(len(taken), derive_key(seed, "mix"))]


def _order(count: int, key: int) -> list[int]:
    return permute(np.arange(count), count, key).tolist() if count else []


def _documents(name: str, source: Source) -> Sequence[object]:
    """The documents of a source: those in memory, or the texts of its files."""
    files = _source_options(name, source)
    if files is None:
        return _in_memory(name, source)
    units = cut_units(expand(name, files.paths), {name: files.layout})
    batches = (batch for unit in units for batch in read_unit(unit, files.layout, Mishaps("raise")))
    return [text for batch in batches for text in batch.column("text").to_pylist()]


def _source_options(name: str, source: Source) -> SourceOptions | None:
    """A source of a recipe, if its documents are in files."""
    if isinstance(source, SourceOptions):
        return source
    if isinstance(source, str | os.PathLike):
        return SourceOptions(name, [os.fspath(source)])
    if isinstance(source, Mapping):
        return from_mapping(SourceOptions, {"name": name, **source}, f"the source {name!r}")
    return None


def _in_memory(name: str, source: Source) -> list[object]:
    if not isinstance(source, Iterable):
        raise ConfigError(f"The source {name!r} is a path or a list of documents, not {type(source).__name__}.")
    documents = list(source)
    if documents and all(
        isinstance(document, str | os.PathLike) and os.path.exists(document) for document in documents
    ):
        raise ConfigError(
            f"The source {name!r} is a list, which holds documents, but all of them are names of files: to read these, "
            f'give {{"paths": [...]}} instead.'
        )
    return documents


def _as_files(name: str, source: Source, folder: Path) -> SourceOptions:
    """A source of a recipe; documents in memory go to a file first, and their numbers are their ids."""
    files = _source_options(name, source)
    if files is not None:
        return files
    folder.mkdir()
    with open(folder / "memory.jsonl", "w", encoding="ascii") as file:
        for number, text in enumerate(_in_memory(name, source)):
            if not isinstance(text, str):
                raise ConfigError(f"A store is made of texts, and the source {name!r} holds {type(text).__name__}.")
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")
    return SourceOptions(name, [str(folder / "memory.jsonl")])
