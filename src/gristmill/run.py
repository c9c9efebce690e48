"""A recipe run: prepare a store, or say what that would do. The CLI and the library call the same functions."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.arguments import PathLike, as_choice, as_flag, as_text, as_whole, refuse
from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.options import as_options
from gristmill.core.progress import Progress, Shown, shown
from gristmill.core.seal import sealed
from gristmill.core.sizes import parse_size
from gristmill.core.version import version
from gristmill.core.watched import may_fork
from gristmill.curate.chain import Curation
from gristmill.engine import ENGINES, make_engine
from gristmill.engine.base import Engine, Means, is_elsewhere
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_target, place_at, sizes
from gristmill.places.storage import use
from gristmill.recipe import Recipe, as_recipe
from gristmill.sources.base import InputFile, expand
from gristmill.sources.units import Unit, cut_units, leads_nowhere
from gristmill.stages.evaluations import curation_of
from gristmill.stages.folders import RunFolders
from gristmill.stages.forecast import RunForecast, forecast, preview
from gristmill.stages.pipeline import Pipeline
from gristmill.stages.readiness import check_ready
from gristmill.stages.sampling import sample_sources
from gristmill.stages.warming import warm
from gristmill.store.files import sampled_checksum
from gristmill.store.folder import Making, own_files
from gristmill.store.manifest import Manifest, ShardEntry
from gristmill.store.opening import TOKENIZER
from gristmill.store.seekable import library_versions
from gristmill.tokenize.tokenizer import Tokenizer, load_tokenizer

# Below this much input a pool of processes takes longer to start than it saves, and one of copies of this process.
_SMALL_INPUT, _SMALL_TO_FORK = 32 << 20, 8 << 20
_LEAST_MEMORY = "256MB"
Splits = dict[str, list[ShardEntry]]


@dataclass(frozen=True)
class RunOptions:
    """Where and how a recipe is run; none of it changes a byte of the store.

    `engine` a name of `gristmill.engine.ENGINES`: `local`, this machine, or `spark`, at the address `master`
    (spark://HOST:PORT, yarn, ...; this machine unless given) or at the Spark Connect server `remote` (sc://HOST:PORT).
    `workers` processes (as many as the machine has cores unless given). `memory` for the whole run: queries take half
    of it and then spill to disk, the rest is for workers (0.5 to 1 GB each). `work` a folder that is kept and used
    again, on disk or in object storage; without it one in the store (on one machine, for a store in object storage, one
    in the user's cache folder), removed at the end. `keep_dropped` puts the texts of dropped documents into
    `dropped.parquet`. `save_index` a new folder for what later runs need to find near duplicates of this one's texts.
    """

    workers: int | None = None
    memory: str | int = "4GB"
    work: str | None = None
    keep_dropped: bool = False
    save_index: str | None = None
    engine: str = "local"
    master: str | None = None
    remote: str | None = None

    def __post_init__(self) -> None:
        as_choice("engine", self.engine, tuple(ENGINES))
        _check_address(self)
        if self.workers is not None:
            as_whole("workers", self.workers)
        if parse_size(self.memory, "memory") < parse_size(_LEAST_MEMORY, "memory"):
            raise ConfigError(
                f"memory must be {_LEAST_MEMORY} at least, not {self.memory!r} (a number alone counts bytes).",
                arguments="memory",
            )
        if self.work is not None:
            as_target("work", self.work)
        if self.save_index is not None:
            as_target("save_index", self.save_index)
        as_flag("keep_dropped", self.keep_dropped)


def _check_address(options: RunOptions) -> None:
    """A cluster's address is for an engine that has one, and it has one of them."""
    for name in ("master", "remote"):
        if getattr(options, name) is not None:
            as_text(name, getattr(options, name), "the address of a Spark cluster")
            if options.engine == "local":
                raise ConfigError(f'{name}= is for engine="spark".', arguments=(name, "engine"))
    if options.master and options.remote:
        raise ConfigError("Give master= or remote= (Spark Connect), not both.", arguments=("master", "remote"))


def prepare(
    recipe: Recipe | Mapping[str, object] | PathLike,
    *,
    overwrite: bool = False,
    progress: Shown = None,
    options: RunOptions | Mapping[str, object] | None = None,
    engine: Engine | str | None = None,
) -> Manifest:
    """Raw text to a store: read, clean, filter, dedup, tokenise, split, shard; the manifest is written last.

    `recipe` is a Recipe, a dict with the keys of its YAML file, or the path of that file. A run that was cut short goes
    on from its last finished unit when it is called again. progress=False shows no bar and no notes. `engine`, in place
    of that of the options, is a name or an engine of your own, which stays open.
    """
    made, chosen = as_recipe(recipe), as_options(RunOptions, options)
    overwrite, given = as_flag("overwrite", overwrite), _as_engine(chosen.engine if engine is None else engine)
    use(made.storage)
    with shown(progress) as told:
        return _prepare(made, overwrite, told, chosen, given)


def _as_engine(engine: object) -> Engine | str:
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, str):
        raise refuse(
            "engine", "the name of an engine, or an object that maps and queries as gristmill.engine says", engine
        )
    return as_choice("engine", engine, tuple(ENGINES))


def _prepare(recipe: Recipe, overwrite: bool, progress: Progress, options: RunOptions, given: Engine | str) -> Manifest:
    root = address_of(recipe.out)
    folders = RunFolders.of(recipe, options.work, options.save_index, shared=is_elsewhere(given))
    folders.look(overwrite)
    check_ready(recipe, options.save_index)
    progress.start("getting ready", 0)
    files = _inputs(root, recipe, progress)
    warm(recipe, progress)
    units = cut_units(files, {source.name: source.layout for source in recipe.sources})
    began = time.time()
    with _opened(given, options, units, folders.scratch) as engine:
        tokenizer = _readied(recipe, engine, progress)
        with folders.held(overwrite) as making:
            pipeline = Pipeline(recipe, engine, folders.work, progress, options.save_index)
            return _made(pipeline, files, units, tokenizer, making, options, began)


def prepare_rows(
    recipe: Recipe,
    rows: Callable[[Address], Sequence[InputFile]],
    engine: Engine,
    overwrite: bool,
    progress: Progress,
    options: RunOptions,
) -> Manifest:
    """`prepare` of what lies in no file yet: `rows` writes it into the work folder, which is held by then."""
    began = time.time()
    folders = RunFolders.of(recipe, options.work, options.save_index, shared=is_elsewhere(engine))
    folders.look(overwrite)
    check_ready(recipe, options.save_index)
    warm(recipe, progress)
    tokenizer = _readied(recipe, engine, progress)
    with folders.held(overwrite) as making:
        files = list(rows(folders.work))
        units = cut_units(files, {source.name: source.layout for source in recipe.sources})
        pipeline = Pipeline(recipe, engine, folders.work, progress, options.save_index)
        return _made(pipeline, files, units, tokenizer, making, options, began)


def _readied(recipe: Recipe, engine: Engine, progress: Progress) -> Tokenizer:
    """The tokenizer, loaded while the engine's workers load what the rules need."""
    engine.start(Curation(recipe.clean, tuple(recipe.filters)).warm)
    tokenizer = load_tokenizer(recipe.tokenizer, eos=recipe.eos)
    if tokenizer.note:
        progress.note(tokenizer.note)
    return tokenizer


def _made(
    pipeline: Pipeline,
    files: list[InputFile],
    units: Sequence[Unit],
    tokenizer: Tokenizer,
    making: Making,
    options: RunOptions,
    began: float,
) -> Manifest:
    """The store, in folders that are held; its manifest comes last."""
    root = address_of(pipeline.recipe.out)
    for text in making.claim.notes:
        pipeline.progress.note(text)
    splits = _carried_out(pipeline, units, tokenizer, making)
    pipeline.write_account(making, keep_texts=options.keep_dropped)
    _check_not_empty(pipeline, splits, len(files))
    _write_inputs(root, files, pipeline.engine)
    place_at(root / TOKENIZER).write(tokenizer.to_json())
    manifest = _manifest(pipeline, splits, tokenizer)
    _write_run_json(root, began, options, splits)
    making.finish(manifest)
    return manifest


def _carried_out(pipeline: Pipeline, units: Sequence[Unit], tokenizer: Tokenizer, making: Making) -> Splits:
    """All passes over the documents, in order; the shards that they become."""
    pipeline.curate(units)
    pipeline.check_ids()
    pipeline.dedup(tokenizer)
    pipeline.tokenize(tokenizer)
    return pipeline.write(making, tokenizer)


def _opened(
    engine: Engine | str, options: RunOptions, units: Sequence[Unit], scratch: Path
) -> AbstractContextManager[Engine]:
    """The engine of a run. One that a caller brought is the caller's to close."""
    if not isinstance(engine, str):
        return nullcontext(engine)
    memory = parse_size(options.memory, "memory") // 2
    means = Means(_worker_count(options, units), memory, scratch, options.master, options.remote)
    return closing(make_engine(engine, means))


def _worker_count(options: RunOptions, units: Sequence[Unit]) -> int:
    """Processes where they pay: a small input is done before they have started."""
    small = _SMALL_TO_FORK if may_fork() else _SMALL_INPUT
    if options.workers is None and sum(unit.size for unit in units) < small:
        return 1
    return max(min(options.workers or os.cpu_count() or 1, len(units)), 1)


def dry_run(
    recipe: Recipe | Mapping[str, object] | PathLike,
    *,
    sample: int = 1000,
    progress: Shown = None,
    options: RunOptions | Mapping[str, object] | None = None,
) -> RunForecast:
    """What `prepare` would do, and an estimate from about `sample` documents; nothing is written."""
    made, chosen = as_recipe(recipe), as_options(RunOptions, options)
    sample = as_whole("sample", sample)
    use(made.storage)
    with shown(progress) as told:
        return _dry_run(made, sample, told, chosen)


def _dry_run(recipe: Recipe, sample: int, progress: Progress, options: RunOptions) -> RunForecast:
    check_ready(recipe, options.save_index)
    warm(recipe, progress)  # what is compiled once a machine is no part of what a run takes
    began = time.perf_counter()
    progress.start("looking at a sample", 0)
    files = _inputs(address_of(recipe.out), recipe, progress)
    units = cut_units(files, {source.name: source.layout for source in recipe.sources})
    tokenizer = load_tokenizer(recipe.tokenizer, eos=recipe.eos)
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        curation = curation_of(recipe, Path(folder), progress)
        loading = time.perf_counter() - began
        samples = sample_sources(recipe, units, sample)
        seen = preview(recipe, curation, samples, tokenizer)
        return forecast(recipe, curation, units, samples, seen, _worker_count(options, units), loading)


def _inputs(root: Address, recipe: Recipe, progress: Progress) -> list[InputFile]:
    """The files to read, in order; what lies in the output's own places is output, even below an input folder."""
    files = [file for source in recipe.sources for file in expand(source.name, source.paths)]
    own = own_files(root, (file.path for file in files))
    if own:
        progress.note(f"{len(own):,} files of {root} itself were not read as input.")
    return [file for file in files if file.path not in own]


def _check_not_empty(pipeline: Pipeline, splits: Splits, files: int) -> None:
    """Refuse to make a store of nothing; else say what a user should know of the one that is made."""
    recipe, funnel = pipeline.recipe, pipeline.funnel
    if not any(splits.values()):
        empty = f" ({funnel.empty:,} of them are empty)" if funnel.empty else ""
        unread = f", and {funnel.unreadable:,} could not be read" if funnel.unreadable else ""
        gone = f"; rules dropped {funnel.dropped:,} documents" if funnel.dropped else ""
        raise SourceError(f"The {files:,} input files hold no text{empty}{unread}{gone}: there is nothing to write.")
    filters = pipeline.curation.names[: len(recipe.filters)]
    for note in (*funnel.notes(files), *funnel.warnings(filters)):
        pipeline.progress.note(note)
    if pipeline.split:
        pipeline.progress.note(pipeline.split.note(recipe.store.val_fraction))


def _manifest(pipeline: Pipeline, splits: Splits, tokenizer: Tokenizer) -> Manifest:
    recipe = pipeline.recipe
    return Manifest(
        dtype=tokenizer.dtype.name,
        eos=tokenizer.eos,
        vocab_size=tokenizer.vocab_size,
        tokenizer={"name": Path(tokenizer.name).name, "fingerprint": tokenizer.fingerprint},
        splits=splits,
        split=pipeline.split.content if pipeline.split else {},
        recipe=pipeline.recipe_content,
        funnel=pipeline.funnel.rows(),
        versions={
            "gristmill": version(),
            "unicode": unicodedata.unidata_version,
            **(recipe.clean.versions() if recipe.clean else {}),
            **tokenizer.versions,
            **(library_versions() if recipe.store.compression == "zstd" else {}),
        },
    )


def _input_checksum(path: Address) -> str:
    """What identifies an input file, which may have gone or not come since it was read; none of a link to nothing."""
    try:
        return "" if leads_nowhere(path) else sampled_checksum(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror}): look what ails it, and run again.") from error


def _input_sizes(files: list[InputFile]) -> list[int]:
    try:
        gone = [leads_nowhere(file.path) for file in files]
        found = sizes(str(file.path) for file, nothing in zip(files, gone, strict=True) if not nothing)
        return [0 if nothing else next(found) for nothing in gone]
    except OSError as error:
        name = error.filename
        raise SourceError(f"{name} cannot be read ({error.strerror}): look what ails it, and run again.") from error


def _write_inputs(root: Address, files: list[InputFile], engine: Engine) -> None:
    table = pa.table({
        "source": [file.source for file in files],
        "path": [file.name for file in files],
        "bytes": _input_sizes(files),
        "fingerprint": list(engine.map(_input_checksum, [file.path for file in files])),
    })  # fmt: skip
    with place_at(root / "inputs.parquet").writing() as file:
        pq.write_table(table, file)


def _write_run_json(root: Address, began: float, options: RunOptions, splits: Splits) -> None:
    """What is not part of the content: times, the host, workers, and the whole paths of the token files."""
    facts = {
        "began": began,
        "seconds": time.time() - began,
        "host": platform.node(),
        "python": platform.python_version(),
        "workers": options.workers,
        "memory": options.memory,
        "token_files": {name: [place_at(root / entry.path).real() for entry in entries]
                        for name, entries in splits.items()},
    }  # fmt: skip
    place_at(root / "run.json").write(sealed(facts))
