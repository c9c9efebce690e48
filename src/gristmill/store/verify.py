"""Every byte of a store against the sum that covers it; every count and boundary against the others."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gristmill.core.arguments import PathLike
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, GristmillError, StoreError
from gristmill.core.hashing import hash_ids
from gristmill.core.progress import Progress, Shown, shown
from gristmill.core.seal import is_sealed
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_address, place_at
from gristmill.store.blocks import BLOCK, BLOCKS_SUFFIX, Sums, check_blocks, read_head
from gristmill.store.files import FileRow, make_files
from gristmill.store.format import (
    DOCS_SUFFIX,
    IDS_SUFFIX,
    IDX_HEADER,
    SUM_BLOCK,
    beside,
    block_sums,
    read_idx_header,
    write_ids,
)
from gristmill.store.index import PackFile
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, ShardEntry, find_store, load_manifest
from gristmill.store.reader import Store, StoreFacts
from gristmill.store.sums import LISTED, SUMS, Listing, check_listed, read_sums
from gristmill.store.writer import checksum, rows_checksum

# A whole number of 1 MiB blocks for every dtype: 32 MiB of uint16.
_SCAN_TOKENS = 1 << 24
_RUN = "run.json"
# Made from the rest of the store, and made again at any time.
_DERIVED = ("report.html",)


@dataclass
class Findings:
    """What was checked and every fault that was found.

    covered: for each kind of file how many there are, their bytes, and which sum covers every one of these. unlisted:
    files in the folder that belong to no store, or of which it has no sum. unfinished: uploads to the store's address
    that have not ended, and since when; where credentials do not allow to list them, none.
    """

    shards: int = 0
    tokens: int = 0
    documents: int = 0
    faults: list[str] = field(default_factory=list)
    covered: dict[str, dict[str, int | str]] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    unfinished: dict[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong; they count as true then, as in `assert gm.verify(path)`."""
        return not self.faults

    def __bool__(self) -> bool:
        return self.whole


def verify(path: PathLike, *, progress: Shown = None) -> Findings:
    """Check every byte, count and boundary of a store, or of one split: faults are listed, not raised."""
    root, splits = _target(as_address("path", path))
    job = _Verification(root, load_manifest(root))
    with shown(progress) as told:
        job.check_shards(splits, told)
    for split in splits:
        job.check_indices(root / split)
    if splits == SPLITS:
        job.check_root()
    job.check_unlisted(root if splits == SPLITS else root / splits[0])
    return job.findings


@dataclass
class Coverage:
    """The files of a store by kind: how many, how many bytes, and by which sum each byte of them is known."""

    root: Address
    kinds: dict[str, dict[str, int | str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, path: PathLike, kind: str, by: str) -> None:
        """A file that has been compared with its sum, whether it passed or not."""
        place = place_at(path)
        if place.exists():
            row = self.kinds.setdefault(kind, {"files": 0, "bytes": 0, "by": by})
            row["files"] = int(row["files"]) + 1
            row["bytes"] = int(row["bytes"]) + place.size()
            self._seen.add(place.real())

    def add_shard(self, path: str, entry: ShardEntry, listing: Listing) -> None:
        """The files of one shard, by the sums that its store has."""
        packed, documents = bool(entry.compressed_bytes), address_of(beside(path, DOCS_SUFFIX))
        tokens = "xxh3-64 of each MiB in .sum"
        in_manifest = "xxh3-128 in the manifest"
        self.add(path, ".bin.zst" if packed else ".bin", in_manifest if entry.compressed_checksum else tokens)
        self.add(beside(path, ".sum"), ".sum", in_manifest)
        self.add(beside(path, ".idx"), ".idx", in_manifest)
        by = in_manifest if entry.ids_checksum else "the ids of its documents"
        self.add(beside(path, IDS_SUFFIX), IDS_SUFFIX, by)
        if entry.blocks_checksum:
            self.add(beside(path, BLOCKS_SUFFIX), BLOCKS_SUFFIX, in_manifest)
        listed = f"{documents.parent.name}/{documents.name}" in listing
        self.add(documents, DOCS_SUFFIX, f"xxh3-128 in {SUMS}" if listed else "xxh3-128 of its rows")

    def unlisted(self, folder: Address) -> list[str]:
        """Files that no sum covers, by their place in the store; hidden ones are locks and work in progress."""
        walked = place_at(folder).walk(links=False) if place_at(folder).is_folder() else ()
        paths = (os.path.join(here, name) for here, names in walked for name in names)
        found = [os.path.relpath(path, self.root) for path in paths if place_at(path).real() not in self._seen]
        return [name for name in found if name not in _DERIVED]


class _Verification:
    """One look at a whole store."""

    def __init__(self, root: Address, manifest: Manifest) -> None:
        self.root, self.manifest = root, manifest
        self.coverage = Coverage(root)
        self.findings = Findings(covered=self.coverage.kinds)
        self._listings: dict[str, Listing] = {}

    def _listing(self, root: Address) -> Listing:
        """What a store, this one or one that it joins, lists; nothing, and a fault, where that is damaged."""
        place = place_at(root).real()
        if place not in self._listings:
            self._listings[place] = {}
            try:
                self._listings[place] = read_sums(root)
            except StoreError as error:
                self.findings.faults.append(str(error))
        return self._listings[place]

    def check_shards(self, splits: tuple[str, ...], progress: Progress) -> None:
        """Every shard with all that lies beside it."""
        entries = [entry for split in splits for entry in self.manifest.splits.get(split, [])]
        itemsize, found = np.dtype(self.manifest.dtype).itemsize, self.findings
        progress.start("verifying", itemsize * sum(entry.tokens for entry in entries))
        for entry in entries:
            path = self.root / entry.path
            listing = self._listing(path.parent.parent)
            self.coverage.add_shard(str(path), entry, listing)
            found.faults += _shard_faults(self.root, entry, self.manifest, listing)
            found.shards += 1
            found.tokens += entry.tokens
            found.documents += entry.documents
            progress.advance(itemsize * entry.tokens)

    def check_indices(self, folder: Address) -> None:
        """Every pack index of a split."""
        for path in (folder / name for name in place_at(folder).names() if name.endswith(".gmi")):
            self.coverage.add(path, ".gmi", "its own sums")
            try:
                index = PackFile(path)
                for shard in range(index.header["shards"]):
                    index.check_shard(shard)
            except StoreError as error:
                self.findings.faults.append(str(error))

    def check_root(self) -> None:
        """The files that are there once: listed ones by their sums, others by the sum that they carry."""
        summed = any(entry.blocks_checksum for entries in self.manifest.splits.values() for entry in entries)
        if summed and not place_at(self.root / SUMS).exists():
            self.findings.faults.append(f"{SUMS} is missing: restore it, or make the store again.")
        listing = self._listing(self.root)
        for name in (name for name in LISTED if name in listing):
            self._try(name, f"xxh3-128 in {SUMS}", lambda path: check_listed(path, path.name, listing))
        self.coverage.add(self.root / SUMS, SUMS, "its own sum")
        for name in (name for name in (MANIFEST, _RUN) if place_at(self.root / name).exists()):
            self._try(name, "its own sum", lambda path: _check_sealed(path, summed))

    def check_unlisted(self, folder: Address) -> None:
        """What else lies in the folder."""
        try:
            self.findings.unlisted = self.coverage.unlisted(folder)
        except OSError as error:
            self.findings.faults.append(f"{error.filename} cannot be listed ({error.strerror}).")
        with contextlib.suppress(OSError, GristmillError):
            names = ((os.path.relpath(each.path, self.root), each.began) for each in place_at(folder).unfinished())
            self.findings.unfinished = dict(names)

    def _try(self, name: str, by: str, check: Callable[[Address], None]) -> None:
        self.coverage.add(self.root / name, name, by)
        try:
            check(self.root / name)
        except StoreError as error:
            self.findings.faults.append(str(error))


def _check_sealed(path: Address, summed: bool) -> None:
    """Refuse a file of ours that does not carry the sum of itself; older versions wrote none."""
    data = place_at(path).read()
    if (summed or b'"sum"' in data) and not is_sealed(data):
        raise StoreError(f"{path} is damaged: its content does not have the sum that it names.")


def _target(path: Address) -> tuple[Address, tuple[str, ...]]:
    if found := find_store(path):
        return found
    if not place_at(path).exists():
        raise ConfigError(f"{path} does not exist.")
    raise StoreError(f"{path} holds no {MANIFEST}: only a store made by Gristmill can be verified.")


def _shard_faults(root: Address, entry: ShardEntry, manifest: Manifest, listing: Listing) -> list[str]:
    """All that is wrong with one shard; a file that cannot be read stops the checks that need it."""
    path = str(root / entry.path)
    try:
        if entry.compressed_checksum and place_at(path).checksum() != entry.compressed_checksum:
            raise StoreError("its checksum differs from the manifest")
        scan = _scan(root, entry, manifest)
        faults = _token_faults(path, entry, manifest, scan)
        lengths = _lengths(address_of(beside(path, ".idx")), entry, np.dtype(manifest.dtype).itemsize)
        faults += _boundary_faults(entry, scan.eos_at, lengths)
        faults += _row_faults(path, entry, lengths, listing)
        faults += _block_faults(path, entry, scan) if entry.blocks_checksum else []
    except (OSError, StoreError, ValueError) as error:
        return [f"{entry.path}: {error}"]
    except (LookupError, TypeError, NotImplementedError) as error:  # what else a damaged Parquet file leads to
        return [f"{entry.path}: {DOCS_SUFFIX} cannot be read ({error!r})"]
    return faults


@dataclass(frozen=True)
class _Scan:
    """What one pass over a shard's tokens finds."""

    sums: Sums
    blocks: Sums
    eos_at: Ints
    highest: int


def _scan(root: Address, entry: ShardEntry, manifest: Manifest) -> _Scan:
    """Read a shard's tokens once, some blocks at a time; opening it checks the size of its file."""
    row = FileRow(entry.path, 0, entry.tokens, entry.documents, entry.checksum, entry.compressed_bytes)
    store = Store(make_files(root, [row]), StoreFacts(str(root), manifest.dtype, manifest.eos, True, "idx"))
    sums, blocks, eos_at, highest = [block_sums([])], [block_sums([])], [np.empty(0, dtype=np.int64)], -1
    for at in range(0, entry.tokens, _SCAN_TOKENS):
        tokens = store.shard_tokens(0, at, at + _SCAN_TOKENS)
        sums.append(block_sums(tokens))
        blocks.append(block_sums(tokens, BLOCK))
        eos_at.append(np.flatnonzero(tokens == manifest.eos) + at)
        highest = max(highest, int(tokens.max()))
    return _Scan(np.concatenate(sums), np.concatenate(blocks), np.concatenate(eos_at), highest)


def _token_faults(path: str, entry: ShardEntry, manifest: Manifest, scan: _Scan) -> list[str]:
    sums, data = scan.sums, place_at(beside(path, ".sum")).read()
    faults = []
    if checksum(data) != entry.checksum:
        faults.append(f"{entry.path}: checksum of its .sum differs from the manifest")
    elif sums.tobytes() != data:
        kept = np.frombuffer(data, "<u8")
        bad = np.flatnonzero(sums != kept)[:3].tolist() if len(sums) == len(kept) else "?"
        faults.append(f"{entry.path}: checksum of block {bad} ({SUM_BLOCK:,} bytes each) differs from its .sum")
    if checksum(sums.tobytes()) != entry.checksum:
        faults.append(f"{entry.path}: checksum differs from the manifest")
    if scan.highest >= manifest.vocab_size:
        faults.append(f"{entry.path}: token {scan.highest} is outside the vocabulary of {manifest.vocab_size:,}")
    return faults


def _lengths(path: Address, entry: ShardEntry, itemsize: int) -> Ints:
    """The documents' lengths by the `.idx`, its own arrays checked against each other."""
    data = place_at(path).read()
    header = read_idx_header(data[:IDX_HEADER], path.name)
    if checksum(data) != entry.idx_checksum:
        raise StoreError(f"checksum of {path.name} differs from the manifest")
    if header.documents != entry.documents:
        raise StoreError(f"{path.name} marks {header.documents:,} documents, the manifest {entry.documents:,}")
    sequences = np.frombuffer(data, "<i4", header.sequences, IDX_HEADER).astype(np.int64)
    pointers = np.frombuffer(data, "<i8", header.sequences, header.pointers_at)
    marks = np.frombuffer(data, "<i8", header.documents + 1, header.documents_at)
    if (pointers != (np.cumsum(sequences) - sequences) * itemsize).any() or sequences.sum() != entry.tokens:
        raise StoreError(f"{path.name} does not describe the tokens beside it")
    starts = np.append(np.cumsum(sequences) - sequences, entry.tokens)
    lengths: Ints = np.diff(starts[marks])
    return lengths


def _boundary_faults(entry: ShardEntry, eos_at: Ints, lengths: Ints) -> list[str]:
    """A document ends with EOS and holds no other."""
    ends = np.cumsum(lengths) - 1
    if len(eos_at) == len(ends) and (eos_at == ends).all():
        return []
    return [f"{entry.path}: {len(eos_at):,} EOS tokens do not stand at the ends of {len(ends):,} documents"]


def _row_faults(path: str, entry: ShardEntry, lengths: Ints, listing: Listing) -> list[str]:
    import pyarrow.parquet as pq

    documents = address_of(beside(path, DOCS_SUFFIX))
    check_listed(documents, f"{documents.parent.name}/{documents.name}", listing)
    with pq.ParquetFile(place_at(documents).arrow()) as file:
        table = file.read(use_threads=False)
    faults = []
    if rows_checksum(table) != entry.rows_checksum:
        faults.append(f"{entry.path}: the rows of {DOCS_SUFFIX} differ from the manifest")
    if table.num_rows != len(lengths) or (table.column("length").to_numpy() != lengths).any():
        faults.append(f"{entry.path}: {DOCS_SUFFIX} and .idx disagree about the documents")
    ids, data = io.BytesIO(), place_at(beside(path, IDS_SUFFIX)).read()
    write_ids(ids, hash_ids(table.column("id").to_pylist()))
    if data != ids.getvalue() or entry.ids_checksum not in ("", checksum(data)):
        faults.append(f"{entry.path}: {IDS_SUFFIX} does not hold the ids of {DOCS_SUFFIX}")
    return faults


def _block_faults(path: str, entry: ShardEntry, scan: _Scan) -> list[str]:
    """The sums of every 4 KiB, against themselves and against what they are sums of."""
    name = beside(path, BLOCKS_SUFFIX)
    data = place_at(name).view()
    tokens, head = check_blocks(data, entry.blocks_checksum, name), read_head(data, entry.blocks_checksum, name)
    files = (place_at(beside(path, suffix)).view() for suffix in (".idx", IDS_SUFFIX))
    wanted = (*(block_sums(file, BLOCK) for file in files), scan.blocks)
    same = [np.array_equal(mine, its) for mine, its in zip((head.idx, head.ids, tokens), wanted, strict=True)]
    return [] if all(same) else [f"{entry.path}: its {BLOCKS_SUFFIX} does not hold the sums of its files"]
