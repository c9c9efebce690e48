"""Data sets of Hugging Face that open at once: an index of the Arrow files that `datasets` keeps in its cache.

The first call loads by `datasets` and writes the index; later calls read it, look whether every file is still as it
was, and import neither `datasets` nor torch.
"""

from __future__ import annotations

import glob
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.arrow.files import ArrowFile, Piece, count_rows
from gristmill.core.arguments import as_flag, as_text
from gristmill.core.errors import ConfigError
from gristmill.core.extras import extra
from gristmill.core.hashing import fingerprint
from gristmill.core.values import Count, check_kinds, kinds_of, parse_json
from gristmill.places.door import as_path, kind_of, place_at
from gristmill.places.local import Local
from gristmill.places.patterns import expand_braces

INDEX_VERSION = 2
# Files are counted so many at a time: elsewhere that is a request for each of their record batches.
_COUNTED = 16
Names = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
DataFiles = Names | Mapping[str, Names]
Spelt = str | list[str] | None
# What does not shape the rows: how fast they are loaded, and who may load them (which must not reach the disk).
_UNINDEXED = ("token", "download_config", "download_mode", "storage_options")


def fast_load_iterable_dataset(
    path: str,
    name: str | None = None,
    split: str = "train",
    data_files: DataFiles | None = None,
    revision: str | None = None,
    force_reindex: bool = False,
    num_proc: int | None = None,
    index_dir: str | Path | None = None,
    **load_dataset_kwargs: object,
) -> ArrowIterableDataset:
    """What `datasets.load_dataset` would give with the same arguments, opened by an index of its Arrow files.

    The index is kept in `index_dir` (gristmill/arrow in the user's cache folder); it is made again, with a warning,
    where the Arrow files or local source files changed, and without one by `force_reindex` or a `download_mode`.
    With "arrow" as path and addresses such as s3://bucket/*.arrow as data_files, files are read where they lie.
    """
    path, split = as_text("path", os.fspath(path) if isinstance(path, os.PathLike) else path), _one_split(split)
    force_reindex = as_flag("force_reindex", force_reindex)
    for option in ("streaming", "keep_in_memory"):
        if load_dataset_kwargs.get(option):
            raise ConfigError(f"{option}= cannot be: the rows are memory-mapped from files. Leave it out.")
    files = _spelt_out(data_files)
    arguments: dict[str, object] = {"path": path, "name": name, "split": split, "revision": revision}
    arguments |= {"data_files": files, **load_dataset_kwargs}
    kept = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gristmill" / "arrow"
    folder = kept if index_dir is None else as_path("index_dir", index_dir)
    sources = _source_files((path, load_dataset_kwargs.get("data_dir")), files, folder)
    elsewhere = _elsewhere(path, files)
    known: Sequence[object] = elsewhere or sources
    request = _request(arguments, relative=not all(os.path.isabs(file) for file, _, _ in sources))
    place = folder / f"{fingerprint(request)}.json"
    renewed = force_reindex or load_dataset_kwargs.get("download_mode") is not None
    index = None if renewed else _read_index(path, place, fingerprint(known))
    if index is None:
        whole: list[tuple[str, int, int | None]] = [(file, 0, None) for file in elsewhere]
        index = _make_index(whole or list(_blocks(arguments, num_proc)), fingerprint(known))
        place_at(place).write(json.dumps({"version": INDEX_VERSION, "request": request} | asdict(index), default=list))
    return ArrowIterableDataset(index.files, index.pieces)


@dataclass(frozen=True)
class ArrowIndex:
    """Where the rows of a data set lie, and the fingerprint of the local files that it was made from."""

    files: list[ArrowFile]
    pieces: list[Piece]
    sources: str


def _spelt_out(data_files: DataFiles | None) -> Spelt | Mapping[str, Spelt]:
    """`~` and braces, which `datasets` does not know, as lists; what has none stays as it is."""
    if isinstance(data_files, Mapping):
        return {split: _spelt_names(files) for split, files in data_files.items()}
    return _spelt_names(data_files)


def _spelt_names(names: Names | None) -> Spelt:
    if isinstance(names, str | os.PathLike):
        found = expand_braces(os.path.expanduser(names))
        return found if len(found) > 1 else found[0]
    return [name for each in names for name in expand_braces(os.path.expanduser(each))] if names else None


def _request(arguments: Mapping[str, object], relative: bool) -> dict[str, object]:
    """What names an index: the arguments that shape the rows, and where relative paths begin."""
    named = {key: value for key, value in sorted(arguments.items()) if key not in _UNINDEXED}
    named["cwd"] = os.getcwd() if relative else None
    request: dict[str, object] = json.loads(json.dumps(named, default=repr))
    if unnamed := [key for key, value in request.items() if " at 0x" in str(value)]:
        raise ConfigError(f"{', '.join(unnamed)} cannot be named in an index: pass plain values.")
    return request


def _source_files(
    given: Sequence[object], data_files: Spelt | Mapping[str, Spelt], index_dir: Path
) -> list[tuple[str, int, int]]:
    """(path, bytes, time of change) of the local files behind a request; empty where all come from elsewhere."""
    folders = [str(folder) for folder in given if folder and os.path.isdir(str(folder))]
    splits = data_files.values() if isinstance(data_files, Mapping) else [data_files]
    patterns = [name for names in splits for name in ([names] if isinstance(names, str) else names or ())]
    found, own = _local_files(folders, patterns), os.path.abspath(index_dir)
    files = (file for file in sorted(found) if os.path.isfile(file) and os.path.dirname(os.path.abspath(file)) != own)
    return [(file, stat.st_size, stat.st_mtime_ns) for file in files if (stat := os.stat(file))]


def _local_files(folders: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """What patterns name, by themselves or in a folder, and all that lies in the folders."""
    inside = [os.path.join(folder, pattern) for folder in folders for pattern in patterns]
    found = {file for pattern in (*patterns, *inside) for file in glob.iglob(pattern, recursive=True)}
    found |= {os.path.join(top, file) for folder in folders for top, _, files in os.walk(folder) for file in files}
    return found


def _read_index(path: str, place: Path, sources: str) -> ArrowIndex | None:
    """The index kept in `place`, unless there is none or what it describes has changed, which is said in a warning."""
    index, difference = None, f"the index {place} is damaged or of another version"
    try:
        index = _as_index(place.read_bytes())
    except FileNotFoundError:
        return None
    if index is not None:
        changed = ["its source files changed" if index.sources != sources else None]
        difference = next(filter(None, (*changed, *(file.difference() for file in index.files))), "")
    if not difference:
        return index
    warnings.warn(f"{path} is loaded by `datasets` again: {difference}.", stacklevel=3)
    return None


def _as_index(text: bytes) -> ArrowIndex | None:
    """The index that this text must be, if it is one: each file and piece with the values that it had when written."""
    try:
        kept = parse_json(text, "the index")
        if kept["version"] != INDEX_VERSION:
            return None
        for each in kept["files"]:
            check_kinds(each, kinds_of(ArrowFile), "the index")
        for each in kept["pieces"]:
            check_kinds(each, {"file": Count, "start": Count, "length": Count}, "the index")
        pieces = [Piece(each["file"], each["start"], each["length"]) for each in kept["pieces"]]
        index = ArrowIndex([ArrowFile(**each) for each in kept["files"]], pieces, kept["sources"])
        whole = all(piece.start + piece.length <= index.files[piece.file].rows for piece in pieces)
    except (ConfigError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return index if whole else None


def _make_index(blocks: Sequence[tuple[str, int, int | None]], sources: str) -> ArrowIndex:
    """Note where the rows lie: (file, first row, rows) of each block, all rows where no number is given."""
    paths = list(dict.fromkeys(path for path, _, _ in blocks))
    with ThreadPoolExecutor(_COUNTED, "gristmill-count") as counting:
        files = dict(zip(paths, counting.map(count_rows, paths), strict=True))
    numbers = {path: number for number, path in enumerate(files)}
    pieces = [Piece(numbers[path], start, files[path].rows if rows is None else rows) for path, start, rows in blocks]
    return ArrowIndex(list(files.values()), pieces, sources)


def _elsewhere(path: str, data_files: Spelt | Mapping[str, Spelt]) -> list[str]:
    """The Arrow files that are not on this machine, if these are asked for."""
    names = data_files if isinstance(data_files, list) else [data_files]
    addresses = [name for name in names if isinstance(name, str) and kind_of(name) is not Local]
    if path != "arrow" or len(addresses) < len(names):
        return []
    found = [place_at(address).matching() for address in addresses]
    if missing := [address for address, files in zip(addresses, found, strict=True) if not files]:
        raise ConfigError(f"There is no file at {missing[0]}: correct data_files.", arguments="data_files")
    return [file for files in found for file in files]


def _one_split(split: str) -> str:
    """Hugging Face's own `split=None` means all splits at once; here it is one."""
    if split is None:
        raise ConfigError("split must be text, such as 'train': a data set here is one split.", arguments="split")
    return as_text("split", split)


def _blocks(arguments: Mapping[str, object], num_proc: int | None) -> Iterator[tuple[str, int, int | None]]:
    """(file, first row, rows) of each block of a data set's table; a split like train[:10%] has parts of files."""
    with extra("hf", "The first load of a data set"):
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    try:
        table = load_dataset(**arguments, num_proc=num_proc).data
    except (DatasetsError, OSError, ValueError, StopIteration) as error:
        if os.path.exists(os.path.join(str(arguments["path"]), "state.json")):
            raise ConfigError(
                f"{arguments['path']} was written by save_to_disk, and load_dataset reads none of these: say "
                f'fast_load_iterable_dataset("arrow", data_files="{arguments["path"]}/*.arrow").'
            ) from error
        raise ConfigError(
            f"datasets cannot load {arguments['path']} ({_why(error)}): correct the call or the source files, or, "
            "where its own cache is damaged, say download_mode='reuse_cache_if_exists'."
        ) from error
    for block, *beside in getattr(table, "blocks", [[table]]):
        # How `datasets` made the block out of its file: (method, arguments, keywords) of Arrow's Table, in turn.
        made_by = getattr(block, "replays", None)
        if beside or made_by is None or not {name for name, _, _ in made_by} <= {"slice", "replace_schema_metadata"}:
            raise ConfigError(
                "The rows are not as they lie in Arrow files: save_to_disk what `datasets` gives and load that."
            )
        yield block.path, sum(values[0] for name, values, _ in made_by if name == "slice"), block.num_rows


def _why(error: BaseException) -> str:
    """What an error of `datasets` says, and what those behind it do: of broken source data only these say anything."""
    said: list[str] = []
    behind: BaseException | None = error
    while behind is not None:
        if (words := str(behind).strip().rstrip(".")) and words not in said:
            said.append(words)
        behind = behind.__cause__
    return ": ".join(said) or "it finds no rows"
