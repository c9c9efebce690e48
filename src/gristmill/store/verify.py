"""Every checksum, count and boundary of a store against its manifest."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gristmill.core.addresses import refuse_address
from gristmill.core.arguments import PathLike, as_path
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.progress import Progress, Shown, shown
from gristmill.store.documents import DOCS_SUFFIX, IDS_SUFFIX
from gristmill.store.files import FileRow, Ints, make_files
from gristmill.store.format import IDX_HEADER, SUM_BLOCK, beside, block_sums, hash_ids, read_idx_header, write_ids
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, ShardEntry, load_manifest
from gristmill.store.reader import Store, StoreFacts
from gristmill.store.writer import checksum, rows_checksum

# A whole number of 1 MiB blocks for every dtype: 32 MiB of uint16.
_SCAN_TOKENS = 1 << 24


@dataclass
class Verdict:
    """What was checked and every fault that was found."""

    shards: int = 0
    tokens: int = 0
    documents: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong; the verdict itself counts as true then, as in `assert gm.verify(path)`."""
        return not self.faults

    def __bool__(self) -> bool:
        return self.whole


def verify(path: PathLike, *, progress: Shown = None) -> Verdict:
    """Check every checksum, count and boundary of a store, or of one split: faults are listed, not raised."""
    root, splits = _target(as_path("path", path))
    manifest = load_manifest(root)
    with shown(progress) as told:
        return _verify(root, [entry for split in splits for entry in manifest.splits.get(split, [])], manifest, told)


def _verify(root: Path, entries: list[ShardEntry], manifest: Manifest, progress: Progress) -> Verdict:
    verdict = Verdict()
    itemsize = np.dtype(manifest.dtype).itemsize
    progress.start("verifying", itemsize * sum(entry.tokens for entry in entries))
    for entry in entries:
        verdict.faults += _shard_faults(root, entry, manifest)
        verdict.shards += 1
        verdict.tokens += entry.tokens
        verdict.documents += entry.documents
        progress.advance(itemsize * entry.tokens)
    return verdict


def _target(path: Path) -> tuple[Path, tuple[str, ...]]:
    refuse_address(path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist.")
    if (path / MANIFEST).exists():
        return path, SPLITS
    if path.name in SPLITS and (path.parent / MANIFEST).exists():
        return path.parent, (path.name,)
    raise StoreError(f"{path} holds no {MANIFEST}: only a store made by Gristmill can be verified.")


def _shard_faults(root: Path, entry: ShardEntry, manifest: Manifest) -> list[str]:
    """All that is wrong with one shard; a file that cannot be read stops the checks that need it."""
    path = str(root / entry.path)
    try:
        scan = _scan(root, entry, manifest)
        faults = _token_faults(path, entry, manifest, scan)
        lengths = _lengths(Path(beside(path, ".idx")), entry, np.dtype(manifest.dtype).itemsize)
        faults += _boundary_faults(entry, scan.eos_at, lengths)
        faults += _row_faults(path, entry, lengths)
    except (OSError, StoreError, ValueError) as error:
        return [f"{entry.path}: {error}"]
    except (LookupError, TypeError, NotImplementedError) as error:  # what else a damaged Parquet file leads to
        return [f"{entry.path}: {DOCS_SUFFIX} cannot be read ({error!r})"]
    return faults


@dataclass(frozen=True)
class _Scan:
    """What one pass over a shard's tokens finds."""

    sums: npt.NDArray[np.uint64]
    eos_at: Ints
    highest: int


def _scan(root: Path, entry: ShardEntry, manifest: Manifest) -> _Scan:
    """Read a shard's tokens once, some blocks at a time; opening it checks the size of its file."""
    row = FileRow(entry.path, 0, entry.tokens, entry.documents, entry.checksum, entry.compressed_bytes)
    store = Store(make_files(root, [row]), StoreFacts(str(root), manifest.dtype, manifest.eos, True, "idx"))
    sums, eos_at, highest = [block_sums([])], [np.empty(0, dtype=np.int64)], -1
    for at in range(0, entry.tokens, _SCAN_TOKENS):
        tokens = store.shard_tokens(0, at, at + _SCAN_TOKENS)
        sums.append(block_sums(tokens))
        eos_at.append(np.flatnonzero(tokens == manifest.eos) + at)
        highest = max(highest, int(tokens.max()))
    return _Scan(np.concatenate(sums), np.concatenate(eos_at), highest)


def _token_faults(path: str, entry: ShardEntry, manifest: Manifest, scan: _Scan) -> list[str]:
    sums, kept = scan.sums, np.fromfile(beside(path, ".sum"), "<u8")
    faults = []
    if len(sums) != len(kept) or (sums != kept).any():
        bad = np.flatnonzero(sums != kept)[:3].tolist() if len(sums) == len(kept) else "?"
        faults.append(f"{entry.path}: checksum of block {bad} ({SUM_BLOCK:,} bytes each) differs from its .sum")
    if checksum(sums.tobytes()) != entry.checksum:
        faults.append(f"{entry.path}: checksum differs from the manifest")
    if scan.highest >= manifest.vocab_size:
        faults.append(f"{entry.path}: token {scan.highest} is outside the vocabulary of {manifest.vocab_size:,}")
    return faults


def _lengths(path: Path, entry: ShardEntry, itemsize: int) -> Ints:
    """The documents' lengths by the `.idx`, its own arrays checked against each other."""
    data = path.read_bytes()
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


def _row_faults(path: str, entry: ShardEntry, lengths: Ints) -> list[str]:
    import pyarrow.parquet as pq

    table = pq.read_table(beside(path, DOCS_SUFFIX))
    faults = []
    if rows_checksum(table) != entry.rows_checksum:
        faults.append(f"{entry.path}: the rows of {DOCS_SUFFIX} differ from the manifest")
    if table.num_rows != len(lengths) or (table.column("length").to_numpy() != lengths).any():
        faults.append(f"{entry.path}: {DOCS_SUFFIX} and .idx disagree about the documents")
    ids = io.BytesIO()
    write_ids(ids, hash_ids(table.column("id").to_pylist()))
    if Path(beside(path, IDS_SUFFIX)).read_bytes() != ids.getvalue():
        faults.append(f"{entry.path}: {IDS_SUFFIX} does not hold the ids of {DOCS_SUFFIX}")
    return faults
