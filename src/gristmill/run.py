"""What the commands do: prepare a store, import one, load a plan. The CLI and the library call the same functions."""

from __future__ import annotations

import fcntl
import functools
import importlib.metadata
import itertools
import json
import os
import platform
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.hashing import derive_key, hash64, mix64
from gristmill.core.paths import atomic_file, disk_errors, write_atomic
from gristmill.core.progress import Progress, Quiet
from gristmill.order.plan import Plan, read_plan
from gristmill.recipe import Recipe, SourceOptions, read_recipe
from gristmill.sources.base import InputFile, Mishaps, RawDocument, batches, expand
from gristmill.sources.jsonl import SUFFIXES, JsonlFields, read_jsonl
from gristmill.sources.text import read_text
from gristmill.store.files import sampled_checksum
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, refuse_or_clear
from gristmill.store.opening import TOKENIZER, open_store
from gristmill.store.reader import Store
from gristmill.store.writer import SplitWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from gristmill.store.importing import ImportReport
    from gristmill.tokenize.tokenizer import Tokenizer


_OWN_FILES = (MANIFEST, TOKENIZER, "inputs.parquet", "run.json", "report.html")
_PROGRESS_BYTES = 1 << 20
_OWN_PREFIXES = ("shard-", "pack-")
_NOT_TEXT = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip", ".tar"), "compressed"),
    **dict.fromkeys((".parquet", ".arrow"), "a table"),
}


def prepare(
    recipe: Recipe | str | os.PathLike[str], *, overwrite: bool = False, progress: Progress | None = None
) -> Manifest:
    """Raw text to a store: read, tokenise, split, shard; the manifest is written last."""
    from gristmill.tokenize.tokenizer import load_tokenizer

    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(Path(recipe))
    progress = progress or Quiet()
    root = Path(recipe.out)
    files = _inputs(root, recipe, progress)
    tokenizer = load_tokenizer(recipe.tokenizer, eos=recipe.eos)
    if tokenizer.note:
        progress.note(tokenizer.note)
    began = time.time()
    with _only_run(root):
        _refuse_others(root)
        refuse_or_clear(root, overwrite)
        _clear_leftovers(root)
        manifest = _Preparation(root, recipe, tokenizer, progress).run(files)
        _write_run_json(root, began)
        manifest.save(root)
    return manifest


def _inputs(root: Path, recipe: Recipe, progress: Progress) -> list[InputFile]:
    """The files to read, in order; what lies in the output's own places is output, even below an input folder."""
    files = [file for source in recipe.sources for file in expand(source.name, source.paths)]
    here = root.resolve()
    splits = {here / split for split in SPLITS}
    real = functools.cache(Path.resolve)
    own = {file for file in files if (folder := real(file.path.parent)) in splits
           or (folder == here and file.path.name in _OWN_FILES)}  # fmt: skip
    if own:
        progress.note(f"{len(own):,} files of {root} itself were not read as input.")
    return [file for file in files if file not in own]


class _Preparation:
    """One run of prepare: counts in, counts out, two writers."""

    def __init__(self, root: Path, recipe: Recipe, tokenizer: Tokenizer, progress: Progress) -> None:
        self._root, self._recipe, self._tokenizer, self._progress = root, recipe, tokenizer, progress
        self._mishaps = Mishaps(recipe.on_error)
        self._funnel = Funnel([source.name for source in recipe.sources])
        per_shard = recipe.store.tokens_per_shard
        self._writers = {split: SplitWriter(root, split, tokenizer.dtype.name, per_shard) for split in SPLITS}

    def run(self, files: list[InputFile]) -> Manifest:
        self._progress.start("tokenising", sum(file.path.stat().st_size for file in files))
        try:
            for source, part in itertools.groupby(files, key=lambda file: file.source):
                for batch in batches(source, self._read(part)):
                    self._add_batch(source, batch)
            splits = {split: writer.finish() for split, writer in self._writers.items()}
        finally:
            for writer in self._writers.values():
                writer.abandon()
        self._check_not_empty(splits, files)
        _write_inputs(self._root, files)
        write_atomic(self._root / TOKENIZER, self._tokenizer.to_json())
        return self._manifest(splits)

    def _read(self, files: Iterable[InputFile]) -> Iterator[RawDocument]:
        """The documents of many files; progress is told about each MiB, and in the end every byte."""
        for file in files:
            left, pending = file.path.stat().st_size, 0
            for document in _documents(file, self._source(file.source), self._mishaps):
                yield document
                pending += len(document.text)
                if pending > _PROGRESS_BYTES:
                    self._progress.advance(min(left, pending))
                    left, pending = left - min(left, pending), 0
            self._progress.advance(left)

    def _source(self, name: str) -> SourceOptions:
        return next(source for source in self._recipe.sources if source.name == name)

    def _add_batch(self, source: str, batch: pa.RecordBatch) -> None:
        """Tokenise a batch and append each document to the split that its content's hash gives."""
        import pyarrow as pa

        from gristmill.tokenize.encode import encode_batch

        texts = [text.encode() for text in batch.column("text").to_pylist()]
        hashes = np.array([hash64(text) for text in texts], dtype=np.uint64)
        self._funnel.add("read", source, len(texts), sum(map(len, texts)), 0)
        encoded = encode_batch(batch, self._tokenizer)
        lengths = np.diff(encoded.column("tokens").offsets.to_numpy())
        table = pa.table({**{name: batch.column(name) for name in ("id", "source", "path")},
                          "content_hash": pa.array(hashes.view(np.int64))})  # fmt: skip
        in_val = is_val(hashes, self._recipe.store.val_fraction, self._recipe.seed)
        self._funnel.add("empty", source, int((lengths == 0).sum()), 0, 0)
        for split, here in zip(SPLITS, (~in_val, in_val), strict=True):
            rows = np.flatnonzero(here & (lengths > 0))
            taken = encoded.column("tokens").take(pa.array(rows))
            self._writers[split].append(taken.flatten().to_numpy(), lengths[rows], table.take(pa.array(rows)))
            size = sum(len(texts[row]) for row in rows)
            self._funnel.add(split, source, len(rows), size, int(lengths[rows].sum()))

    def _check_not_empty(self, splits: dict[str, list[Any]], files: list[InputFile]) -> None:
        if not any(splits.values()):
            unread = f", and {self._mishaps.skipped:,} could not be read" if self._mishaps.skipped else ""
            raise SourceError(f"The {len(files):,} input files hold no text{unread}: there is nothing to prepare.")
        if self._mishaps.skipped:
            shown = "; ".join(self._mishaps.examples)
            self._progress.note(f"{self._mishaps.skipped:,} documents could not be read and were skipped: {shown}")
        fraction = self._recipe.store.val_fraction
        for split in SPLITS:
            if not splits[split]:
                count = self._funnel.documents("train" if split == "val" else "val")
                self._progress.note(f"The split {split!r} is empty: val_fraction is {fraction} of {count:,} documents.")

    def _manifest(self, splits: dict[str, list[Any]]) -> Manifest:
        tokenizer = self._tokenizer
        return Manifest(
            dtype=tokenizer.dtype.name,
            eos=tokenizer.eos,
            vocab_size=tokenizer.vocab_size,
            tokenizer={"name": Path(tokenizer.name).name, "fingerprint": tokenizer.fingerprint},
            splits=splits,
            recipe=self._recipe.content,
            funnel=self._funnel.rows(self._mishaps.by_source),
            versions={
                "gristmill": importlib.metadata.version("gristmill"),
                "unicode": unicodedata.unidata_version,
                **tokenizer.versions,
            },
        )


class Funnel:
    """Documents, bytes and tokens by stage and source, in the order in which stages first count."""

    def __init__(self, sources: list[str]) -> None:
        self._sources = list(dict.fromkeys(sources))
        self._counts: dict[tuple[str, str], list[int]] = {}

    def add(self, stage: str, source: str, documents: int, size: int, tokens: int) -> None:
        """Count documents at a stage."""
        row = self._counts.setdefault((stage, source), [0, 0, 0])
        for i, amount in enumerate((documents, size, tokens)):
            row[i] += amount

    def documents(self, stage: str) -> int:
        """Documents of all sources at a stage."""
        return sum(counts[0] for (name, _), counts in self._counts.items() if name == stage)

    def rows(self, unreadable: Mapping[str, int]) -> list[dict[str, Any]]:
        """One row a stage and source, and one for what could not be read of a source."""
        stages = dict.fromkeys(stage for stage, _ in self._counts)
        rows = [
            {"stage": stage, "source": source, "documents": counts[0], "bytes": counts[1], "tokens": counts[2]}
            for stage in stages
            for source in self._sources
            if (counts := self._counts.get((stage, source)))
        ]
        lost = [source for source in self._sources if unreadable.get(source)]
        return [{"stage": "unreadable", "source": name, "documents": unreadable[name]} for name in lost] + rows


def _documents(file: InputFile, source: SourceOptions, mishaps: Mishaps) -> Iterator[RawDocument]:
    """The reader for a file, by its suffix."""
    suffix = file.path.suffix.lower()
    if suffix in _NOT_TEXT:
        error = SourceError(f"{file.path} is {_NOT_TEXT[suffix]}, which this version cannot read: unpack it to JSONL.")
        mishaps.report(error, file.source)
        return iter(())
    if suffix in SUFFIXES:
        return read_jsonl(file, JsonlFields(source.text, source.id), mishaps)
    return read_text(file, mishaps)


def is_val(
    hashes: np.ndarray[Any, np.dtype[np.uint64]], fraction: float, seed: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether documents with these content hashes belong to val: equal texts always fall on the same side."""
    key = derive_key(seed, "val")
    places = np.array([mix64(int(value) ^ key) >> 11 for value in hashes], dtype=np.uint64)
    return places < np.uint64(int(fraction * 2**53))


@contextmanager
def _only_run(root: Path) -> Iterator[None]:
    """Hold the output folder; a second run on it is told so and stops."""
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is a file: --out names the folder of the new store.")
    with disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = open(root / ".lock", "w")  # noqa: SIM115 - held open for as long as the lock
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f"Another run is writing to {root}: wait for it, or choose another folder.") from error
        yield


def _refuse_others(root: Path) -> None:
    """Stop before the files of somebody else: what becomes a split may hold nothing but shards."""
    for path in (path for split in SPLITS for path in sorted((root / split).glob("*"))):
        if not path.name.lstrip(".").startswith(_OWN_PREFIXES):
            raise ConfigError(f"{path} is no part of a store, and {root} is to become one: choose another folder.")


def _clear_leftovers(root: Path) -> None:
    """Remove the shards of a run that did not finish: without a manifest they belong to nothing."""
    for split in SPLITS:
        (root / split).mkdir(parents=True, exist_ok=True)
        for path in (root / split).iterdir():
            path.unlink()
    for path in (path for name in _OWN_FILES for path in root.glob(f".{name}.*.tmp")):
        path.unlink()


def _write_inputs(root: Path, files: list[InputFile]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({
        "source": [file.source for file in files],
        "path": [file.name for file in files],
        "bytes": [file.path.stat().st_size for file in files],
        "fingerprint": [sampled_checksum(file.path) for file in files],
    })  # fmt: skip
    with atomic_file(root / "inputs.parquet") as file:
        pq.write_table(table, file)


def _write_run_json(root: Path, began: float) -> None:
    """What is not part of the content: times and the host."""
    facts = {
        "began": began,
        "seconds": time.time() - began,
        "host": platform.node(),
        "python": platform.python_version(),
    }
    write_atomic(root / "run.json", json.dumps(facts, indent=1) + "\n")


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """A plan from its file, over the stores whose paths it holds, as seen from here or from the plan's own folder."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The plan {path} cannot be read ({error}).") from error
    sources = read_plan(text)["sources"]
    return Plan.from_json(text, {name: _pinned_store(Path(path), name, pin) for name, pin in sources.items()})


def _pinned_store(plan: Path, name: str, pin: Mapping[str, Any]) -> Store:
    """A source of a plan, opened as it was when the plan was made."""
    given = pin["path"] if isinstance(pin["path"], list) else [pin["path"]]
    places = [_pinned_place(plan, name, str(path)) for path in given]
    return open_store(places if len(places) > 1 else places[0], pin.get("dtype"), pin.get("eos"))


def _pinned_place(plan: Path, name: str, path: str) -> Path:
    for place in (Path(path), plan.parent / path):
        if place.exists():
            return place
    raise ConfigError(
        f"The plan {plan} reads its source {name!r} from {path}, which does not exist: bring it back, or "
        "change the path in the plan, which is no part of its fingerprint."
    )


def import_tokens(
    paths: Sequence[str],
    out: str,
    tokenizer: str,
    *,
    eos: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ImportReport:
    """Foreign token files to a store, with the tokenizer that made them kept beside it; `options` of `import_store`."""
    from gristmill.store.importing import import_store
    from gristmill.tokenize.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer, eos=eos)
    if progress and loaded.note:
        progress.note(loaded.note)
    named = {"name": Path(loaded.name).name, "fingerprint": loaded.fingerprint}
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        kept = Path(folder) / TOKENIZER
        kept.write_text(loaded.to_json(), encoding="utf-8")
        return import_store(
            paths, out, eos=loaded.eos, vocab_size=loaded.vocab_size, tokenizer=named, tokenizer_json=kept, **options
        )
