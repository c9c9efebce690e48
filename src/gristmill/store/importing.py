"""Foreign token files as a store: the tokens linked where they are right as they lie, copied with EOS set elsewhere.

A file is right if it has no header, the dtype that its vocabulary asks for, and EOS at the end of every document.
Every token of a foreign file is in the store afterwards; what had to be changed for that is counted.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import as_choice, as_flag
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.progress import Progress, Shown, shown
from gristmill.core.texts import runs
from gristmill.core.version import version
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_addresses, as_target, place_at
from gristmill.store.exchange import link
from gristmill.store.files import sampled_checksum
from gristmill.store.folder import StoreFolder
from gristmill.store.foreign import ForeignFile, open_foreign, read_foreign
from gristmill.store.format import dtype_for
from gristmill.store.manifest import SPLITS, FunnelRow, Manifest, ShardEntry
from gristmill.store.opening import TOKENIZER, PathLike, named_paths
from gristmill.store.reader import Store
from gristmill.store.sample_folders import SampleFolder, open_samples, split_folders
from gristmill.store.sums import Listing
from gristmill.store.writer import document_table, shard_name, token_sums, write_shard, write_side_files

if TYPE_CHECKING:
    import pyarrow as pa

    Part = tuple[npt.NDArray[Any], Ints, pa.Table]

BOUNDARIES = ("auto", "eos")
_BATCH_TOKENS = 1 << 24

Paths = PathLike | Sequence[PathLike]
# A file of tokens, or a folder of files with samples.
Input = Store | SampleFolder


@dataclass
class ImportReport:
    """What an import made, which token files are links, and all that it changed."""

    linked: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    documents: int = 0
    tokens: int = 0
    eos_added: int = 0  # documents that lacked EOS: a file's tail, the head of an llm.c file, a truncated document
    eos_moved: int = 0  # documents that began with EOS and end with it now
    documents_cut: int = 0  # documents that an EOS inside another one made
    empty_dropped: int = 0  # documents of an index that had no token
    not_in_sidecar: int = 0  # documents made of tokens that a sidecar does not mention
    notes: list[str] = field(default_factory=list)


def import_store(
    paths: Paths | Mapping[str, Paths],
    out: PathLike,
    *,
    eos: int,
    vocab_size: int,
    dtype: str | None = None,
    tokenizer: Mapping[str, str] | None = None,
    tokenizer_json: str = "",
    split: str = "train",
    boundaries: str = "auto",
    overwrite: bool = False,
    progress: Shown = None,
) -> ImportReport:
    """Make a store of files that `gristmill.open` opens, or of folders of MDS or LitData: one shard a file.

    A mapping gives both splits at once; so does a folder that has those of samples for both. `dtype` is that of
    headerless files; the store's follows `vocab_size`. Documents are those of a Megatron `.idx`, of a `.csv.gz` beside
    a headerless `.npy`, or samples of many lengths; else EOS marks them (boundaries="eos": always). Ids are the
    sidecar's, else FILE:ROW.
    """
    boundaries, split = as_choice("boundaries", boundaries, BOUNDARIES), as_choice("split", split, SPLITS)
    overwrite = as_flag("overwrite", overwrite)
    if not 0 <= eos < vocab_size:
        raise ConfigError(f"EOS {eos} is outside the vocabulary of {vocab_size:,}.")
    root, named = as_target("out", out), dict(tokenizer or {"name": "unknown", "fingerprint": ""})
    inputs = _opened(paths, split, dtype, eos)
    _refuse_own_files(root, inputs)
    job = _Import(root, eos, vocab_size)
    with shown(progress) as told, StoreFolder(root, "import").filling(overwrite) as making:
        told.start("importing", sum(_size(each) for part in inputs.values() for each in part))
        making.will_write(shard_name(name, i, "none") for name in inputs for i in range(len(_files(inputs[name]))))
        splits = {name: job.add_split(name, _read(inputs.get(name, []), eos, boundaries, told)) for name in SPLITS}
        if tokenizer_json:
            place_at(root / TOKENIZER).write(tokenizer_json)
        making.sums.update(job.sums)
        recipe = {"import": {"files": _fingerprints(inputs), "boundaries": boundaries}}
        making.finish(job.manifest(splits, named, recipe))
    return job.finish([stem for part in inputs.values() for _, stem in _files(part)])


def _read(
    inputs: Sequence[Input], eos: int, boundaries: str, progress: Progress
) -> Iterator[ForeignFile | Iterator[ForeignFile]]:
    """Each file, whole or, if it holds samples, in pieces; whoever asks for the next has done with the last."""
    for each in inputs:
        if isinstance(each, Store):
            yield read_foreign(each, eos, boundaries)
        else:
            yield from each.read(eos, boundaries)
        progress.advance(_size(each))


def _size(each: Input) -> int:
    if isinstance(each, Store):
        return each.num_tokens * each.dtype.itemsize
    return sum(file.size for file in each.files)


def _files(inputs: Sequence[Input]) -> list[tuple[Address, str]]:
    """Every file, and what its documents are named by."""
    found: list[tuple[Address, str]] = []
    for each in inputs:
        if isinstance(each, Store):
            found.append((address_of(each.files.path(0)), each.files.stem(0)))
        else:
            found += [(file.path, file.name) for file in each.files]
    return found


def _opened(paths: Paths | Mapping[str, Paths], given: str, dtype: str | None, eos: int) -> dict[str, list[Input]]:
    """The files of each split in the order given, all opened before anything is written."""
    by_split = dict(paths) if isinstance(paths, Mapping) else {given: paths}
    named = {as_choice("split", split, SPLITS): as_addresses("paths", listed) for split, listed in by_split.items()}
    if isinstance(paths, str | os.PathLike) and (folders := split_folders(named[given][0])):
        named = {split: [folder] for split, folder in folders.items()}
    inputs: dict[str, list[Input]] = {
        split: [open_samples(path, dtype) or open_foreign(path, dtype, eos) for path in named_paths(each)]
        for split, each in named.items()
    }
    if not any(inputs.values()):
        raise ConfigError("There are no files to import.")
    return inputs


def _refuse_own_files(root: Address, inputs: dict[str, list[Input]]) -> None:
    """Starting the new store would remove them."""
    for path, _ in itertools.chain.from_iterable(_files(part) for part in inputs.values()):
        if place_at(root).real() in map(str, Path(place_at(path).real()).parents):
            raise ConfigError(f"{path} lies inside {root}: choose another folder to write to.")


def _fingerprints(inputs: dict[str, list[Input]]) -> dict[str, list[list[str]]]:
    """Each file's name and what identifies its content, without its folder."""
    return {split: [[path.name, sampled_checksum(path)] for path, _ in _files(part)] for split, part in inputs.items()}


@dataclass(frozen=True)
class _Import:
    """One import: what every file is brought to, and the counts of what that took."""

    root: Address
    eos: int
    vocab_size: int
    report: ImportReport = field(default_factory=ImportReport)
    sums: Listing = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        return dtype_for(self.vocab_size)

    def add_split(self, split: str, files: Iterator[ForeignFile | Iterator[ForeignFile]]) -> list[ShardEntry]:
        """One shard a file, so that it can be linked; or else copied."""
        entries: list[ShardEntry] = []
        for file in files:
            name = shard_name(split, len(entries), "none")
            entry = self._add_file(name, file) if isinstance(file, ForeignFile) else self._copy(name, file)
            if entry:  # no document need end in a file of samples
                self.report.documents += entry.documents
                self.report.tokens += entry.tokens
                entries.append(entry)
        return entries

    def _add_file(self, name: str, file: ForeignFile) -> ShardEntry | None:
        right = not file.header and file.tokens.dtype.name == self.dtype
        if not right or file.comes_first or not file.has_eos.all():
            return self._copy(name, iter([file]))
        self._count(file)
        return self._link(file, name)

    def _copy(self, name: str, pieces: Iterator[ForeignFile]) -> ShardEntry | None:
        parts = (part for piece in pieces for part in self._documents(piece))
        first = next(parts, None)
        if first is None:
            return None
        entry, sums = write_shard(self.root, name, self.dtype, itertools.chain([first], parts))
        self.sums.update(sums)
        self.report.copied.append(name)
        return entry

    def _count(self, file: ForeignFile) -> None:
        report = self.report
        report.documents_cut += file.cut
        report.empty_dropped += file.empty
        report.not_in_sidecar += file.unnamed
        report.eos_added += int((~file.has_eos).sum())
        report.eos_moved += int(file.has_eos.sum()) if file.comes_first else 0

    def _link(self, file: ForeignFile, name: str) -> ShardEntry:
        """A shard whose tokens stay where they are; its `.idx` too, if it is the one that would be written."""
        self._check_ids(file.tokens, file.path)
        target, lengths = self.root / name, np.diff(file.starts)
        table = document_table([file.names], lengths)
        entry = write_side_files(self.root, name, lengths, table, token_sums(file.tokens), self.dtype)
        theirs, ours = file.path.with_suffix(".idx"), target.with_suffix(".idx")
        if place_at(theirs).exists() and np.array_equal(place_at(theirs).view(), place_at(ours).view()):
            link(theirs, ours)
        shared = link(file.path, target)  # from place to place it takes a copy
        (self.report.linked if shared else self.report.copied).append(name)
        return entry

    def _documents(self, file: ForeignFile) -> Iterator[Part]:
        """The documents with EOS at the end of each, a batch of them at a time."""
        self._count(file)
        for first, last in runs(file.starts, _BATCH_TOKENS):
            edges = file.starts[first : last + 1]
            part = file.tokens[edges[0] : edges[-1]]
            self._check_ids(part, file.path)
            has_eos = file.has_eos[first:last]
            part = part.astype(self.dtype)  # before EOS is added, which a narrower dtype might not hold
            fixed = self._with_eos_last(part, edges - edges[0], has_eos, file.comes_first)
            yield fixed, np.diff(edges) + ~has_eos, file.names.slice(first, last - first)

    def _with_eos_last(
        self, tokens: npt.NDArray[Any], edges: Ints, has_eos: npt.NDArray[np.bool_], comes_first: bool
    ) -> npt.NDArray[Any]:
        if not comes_first:
            return np.insert(tokens, edges[1:][~has_eos], self.eos)
        # All get one at the end, which moves what follows by one; then those that began with one lose it.
        longer = np.insert(tokens, edges[1:], self.eos)
        return np.delete(longer, (edges[:-1] + np.arange(len(has_eos)))[has_eos])

    def _check_ids(self, tokens: npt.NDArray[Any], path: Address) -> None:
        highest = int(tokens.max())
        if highest >= self.vocab_size:
            raise ConfigError(
                f"{path} holds token {highest}, outside the vocabulary of {self.vocab_size:,}: "
                "is it of another dtype, or vocab_size too small?"
            )

    def manifest(
        self, splits: dict[str, list[ShardEntry]], tokenizer: dict[str, str], recipe: Mapping[str, object]
    ) -> Manifest:
        """What the store holds now."""
        rows: list[FunnelRow] = [
            {"stage": split, "source": "import", "documents": sum(e.documents for e in entries),
             "tokens": sum(e.tokens for e in entries)}
            for split, entries in splits.items() if entries
        ]  # fmt: skip
        versions = {"gristmill": version()}
        return Manifest(self.dtype, self.eos, self.vocab_size, tokenizer, splits, recipe, rows, versions)

    def finish(self, stems: list[str]) -> ImportReport:
        """The report, with what a person should know."""
        report = self.report
        facts = {
            "shards share their bytes with the files given: do not change those.": len(report.linked),
            "documents lacked EOS and got one.": report.eos_added,
            "documents began with EOS and end with it now.": report.eos_moved,
            "more documents came of an EOS inside another.": report.documents_cut,
            "documents without a token were dropped.": report.empty_dropped,
            "stretches of tokens are in no sidecar and became documents.": report.not_in_sidecar,
            "files have the name of another: their documents' ids are not unique.": len(stems) - len(set(stems)),
        }
        report.notes.extend(f"{count:,} {what}" for what, count in facts.items() if count)
        return report
