"""A store under the names and in the layouts of other systems: links where the bytes are the same, copies elsewhere."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

from gristmill.core.arguments import as_choice, as_flag, as_whole
from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.progress import Shown, shown
from gristmill.places.door import as_address, as_target, place_at
from gristmill.store.exchange import refuse_inside, store_splits
from gristmill.store.export_job import ExportFormat, ExportJob, copy_tokens
from gristmill.store.format import DOCS_SUFFIX, SUM_BLOCK, block_sums
from gristmill.store.litdata import check_litdata, litdata_notes, write_litdata
from gristmill.store.manifest import SPLITS, load_manifest
from gristmill.store.mds import mds_notes, write_mds
from gristmill.store.opening import LLM_C, LLM_C_HEADER, PathLike, open_split
from gristmill.store.outbox import Outbox
from gristmill.store.reader import Store
from gristmill.store.samples_out import check_samples
from gristmill.store.sharded_bin import DTYPE, METADATA, TOKENIZER_STATE, shard_name
from gristmill.store.webdataset import check_webdataset, webdataset_notes, write_webdataset
from gristmill.store.writer import checksum

if TYPE_CHECKING:
    import pyarrow as pa

_LLM_C_BY_DTYPE = {dtype: magic for magic, (dtype, _) in LLM_C.items()}
_LLM_C_VERSION = {20240520: 1, 20240801: 7}
_GPT2 = (50_257, 50_256)
# A newline in an id would end the row for OLMo-core, which reads the sidecar line by line.
_ONE_LINE = str.maketrans({"\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class ExportReport:
    """The files of an export, by how they came to be, and what their reader must be told."""

    format: str
    out: str
    linked: list[str]
    copied: list[str]
    notes: list[str]


def export_store(
    path: PathLike,
    to: str,
    out: PathLike,
    *,
    seq_len: int | None = None,
    overwrite: bool = False,
    progress: Shown = None,
) -> ExportReport:
    """Lay a store (or one split of it) out for `to`: megatron, olmo, nanogpt, llmc, npy, sharded-bin, mds, litdata or
    webdataset.

    `seq_len` is for the last three: samples of so many tokens, instead of a document each.
    """
    to, overwrite = as_choice("to", to, tuple(FORMATS)), as_flag("overwrite", overwrite)
    seq_len = None if seq_len is None else as_whole("seq_len", seq_len, 1)
    if seq_len and not FORMATS[to].has_samples:
        *some, last = (name for name, format in FORMATS.items() if format.has_samples)
        raise ConfigError(f"{to} has no samples: seq_len= is for {', '.join(some)} and {last}.", arguments="seq_len")
    root, wanted = store_splits(as_address("path", path, "the folder of a store"))
    folder = as_target("out", out)
    refuse_inside(root, folder)
    stores = {split: open_split(root, split) for split in wanted}
    filled = {split: store for split, store in stores.items() if store.num_shards}
    if not filled:
        raise ConfigError(f"{path} has no shards to export.")
    manifest = load_manifest(root)
    samples = {} if seq_len is None else {"seq_len": seq_len}
    about = {"command": f"export --to {to}", "store": manifest.fingerprint, "splits": list(filled), **samples}
    with shown(progress) as told:
        job = ExportJob(root.name, manifest, filled, Outbox(folder, about), told, seq_len)
        FORMATS[to].check(job)
        with job.out.filling(overwrite):
            told.start(f"exporting to {to}", sum(store.num_tokens * store.dtype.itemsize for store in filled.values()))
            FORMATS[to].write(job)
    notes = [*FORMATS[to].notes(job), *_compression_notes(job), *job.out.notes]
    return ExportReport(to, str(folder), job.out.linked, job.out.copied, notes)


def _span(store: Store, shard: int) -> tuple[int, int]:
    """The tokens of a shard among those of its split."""
    return store.tokens_in(shard), store.tokens_in(shard + 1)


def _place_tokens(
    job: ExportJob, store: Store, shard: int, name: str, dtype: np.dtype[np.generic] | None = None
) -> None:
    """A shard's plain tokens under another name: a link, or a copy where they are compressed or of another dtype."""
    if not store.files.compressed[shard] and dtype in (None, store.dtype):
        _check_linked(store, shard)
        job.out.link(store.files.path(shard), name)
        return
    with job.out.write(name) as file:
        copy_tokens(store, *_span(store, shard), file, dtype)


def _check_linked(store: Store, shard: int) -> None:
    """A shard that is a symbolic link must lead to its tokens: the sums of the first and the last block tell."""
    path = store.files.path(shard)
    if not place_at(path).is_link():
        return
    sums = np.frombuffer(place_at(store.files.sibling(shard, ".sum")).read(), "<u8")
    block, tokens = SUM_BLOCK // store.dtype.itemsize, int(store.files.tokens[shard])
    last = (tokens - 1) // block * block
    ends = [block_sums(store.shard_tokens(shard, at, min(at + block, tokens))) for at in (0, last)]
    known = checksum(sums.tobytes()) == store.files.checksums[shard].decode()
    if not known or sums[[0, last // block]].tolist() != np.concatenate(ends).tolist():
        raise StoreError(f"{path} is a link to {place_at(path).real()}, which is not this shard: put the shard there.")


def _compression_notes(job: ExportJob) -> list[str]:
    """Say why an export took disk space that links would not have taken."""
    packed = [store.files.tokens[store.files.compressed > 0].sum() for store in job.splits.values()]
    size = int(sum(packed)) * np.dtype(job.manifest.dtype).itemsize
    return [f"Compressed shards were decompressed: {size:,} bytes of tokens are copies, not links."] if size else []


# Megatron-LM: {prefix}_{key}_document, as its preprocess_data.py names them.


def _write_megatron(job: ExportJob) -> None:
    for split, store, shard in job.shards():
        prefix = f"{split}-{shard:05d}_text_document"
        _place_tokens(job, store, shard, f"{prefix}.bin")
        job.out.link(store.files.sibling(shard, ".idx"), f"{prefix}.idx")


def _megatron_notes(job: ExportJob) -> list[str]:
    flags = {"train": "--train-data-path", "val": "--valid-data-path"}
    prefixes = f"$(ls {job.out.folder}/{{}}-*_text_document.bin | sed 's/\\.bin$//')"
    notes = [f"{flags[split]} {prefixes.format(split)}" for split in job.splits]
    notes.append(
        "--data-path takes the same prefixes, but cuts documents off for validation unless --split 100,0,0 is given."
    )
    notes.append(
        "Every document ends with EOS already. Megatron's IndexedDataset reads every token; its GPTDataset leaves out "
        "what fills no sequence at the end of each prefix (at most sequence_length tokens)."
    )
    if job.manifest.dtype == "uint32":
        notes.append("Megatron has no uint32: the .idx says dtype code 4 (int32), the same bytes for ids under 2^31.")
    return notes


# OLMo-core: headerless arrays under .npy names, and the sidecar that the Dolma toolkit writes.


def _write_olmo(job: ExportJob) -> None:
    for split, store, shard in job.shards():
        _place_tokens(job, store, shard, f"{split}-{shard:05d}.npy")
        with job.out.write(f"{split}-{shard:05d}.csv.gz") as file:
            _write_sidecar(file, store.files.sibling(shard, DOCS_SUFFIX))


def _write_sidecar(file: IO[bytes], documents: str) -> None:
    """start,end,id,src,loc a document, without a header row (OLMo-core refuses one); equal rows give equal bytes."""
    packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
    with packed, io.TextIOWrapper(packed, encoding="utf-8", newline="") as text:
        writer, row = csv.writer(text, lineterminator="\n"), 0
        for batch in _document_batches(documents):
            columns = batch.to_pydict()
            paths = columns.get("path", columns["source"])
            spans = zip(columns["offset"], columns["length"], columns["id"], paths, strict=True)
            for start, length, name, path in spans:
                named = (name.translate(_ONE_LINE), (path or "").translate(_ONE_LINE))
                writer.writerow((start, start + length, *named, row))
                row += 1


def _document_batches(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(place_at(path).arrow()) as file:
            wanted = [c for c in ("id", "source", "offset", "length", "path") if c in file.schema_arrow.names]
            yield from file.iter_batches(columns=wanted, use_threads=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}): restore it or make the store again.") from error


def _olmo_notes(job: ExportJob) -> list[str]:
    dropped = sum(int((store.files.tokens % 2048).sum()) for store in job.splits.values())
    total = sum(store.num_tokens for store in job.splits.values())
    return [
        _olmo_config(job),
        "bos_token_id must be None: with TokenizerConfig.gpt2(), where BOS is EOS, a whole file becomes one document. "
        "NumpyPackedFSLDataset takes the sidecars by use_array_if_local=False; the padded and mixture data sets take "
        "them by the environment variable OLMO_DATA_PREP_USE_ARRAY_IF_LOCAL=false. Boundaries are the same without.",
        f"NumpyFSLDataset drops the end of each file that fills no sequence: {dropped:,} of {total:,} tokens at "
        "sequence_length=2048. Packed drops nothing with long_doc_strategy fragment, and what is beyond "
        "sequence_length in each document with truncate (its default), as does padded.",
    ]


def _olmo_config(job: ExportJob) -> str:
    """Python that builds both data sets; a test runs it."""
    manifest = job.manifest
    paths = f"{job.out.folder}/{next(iter(job.splits))}-*.npy"
    return f"""\
from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, NumpyPackedFSLDatasetConfig, TokenizerConfig
from olmo_core.data.types import LongDocStrategy

tokenizer = TokenizerConfig(
    vocab_size={manifest.vocab_size}, eos_token_id={manifest.eos}, pad_token_id={manifest.eos}, bos_token_id=None
)
files = dict(paths=[{paths!r}], expand_glob=True, dtype=NumpyDatasetDType.{manifest.dtype}, tokenizer=tokenizer)
fixed = NumpyFSLDatasetConfig(sequence_length=2048, **files)
packed = NumpyPackedFSLDatasetConfig(
    sequence_length=2048, long_doc_strategy=LongDocStrategy.fragment, use_array_if_local=False, **files
)
"""


# nanoGPT: one file a split.


def _write_nanogpt(job: ExportJob) -> None:
    for split, store in job.splits.items():
        if store.num_shards == 1:
            for shard in job.shards_of(store):
                _place_tokens(job, store, shard, f"{split}.bin")
            continue
        with job.out.write(f"{split}.bin") as file:
            for shard in job.shards_of(store):
                copy_tokens(store, *_span(store, shard), file)


def _nanogpt_notes(job: ExportJob) -> list[str]:
    notes = [f"nanoGPT drops nothing: it draws random windows from {' and '.join(f'{s}.bin' for s in job.splits)}."]
    if job.manifest.dtype != "uint16":
        notes.append(
            f"nanoGPT assumes uint16, these are {job.manifest.dtype}: change dtype in its get_batch, or it reads noise."
        )
    if len(job.splits) < len(SPLITS):
        notes.append("nanoGPT's train.py wants both train.bin and val.bin.")
    return notes


# llm.c: 256 int32, then tokens with EOT before each document instead of after.


def _check_llmc(job: ExportJob) -> None:
    manifest = job.manifest
    if manifest.dtype not in _LLM_C_BY_DTYPE:
        raise ConfigError(f"llm.c reads uint16 and uint32 tokens, not {manifest.dtype}.")
    if manifest.dtype == "uint16" and (manifest.vocab_size, manifest.eos) != _GPT2:
        raise ConfigError(
            f"llm.c takes uint16 tokens for GPT-2's (50,257 ids, EOS 50256); this store has {manifest.vocab_size:,} "
            f"and EOS {manifest.eos}: export to nanogpt or megatron."
        )
    for split, store in job.splits.items():
        if store.files.tokens.max() >= 2**31:
            raise ConfigError(
                f"A shard of {split} has 2^31 tokens or more: make the store with fewer tokens_per_shard."
            )


def _write_llmc(job: ExportJob) -> None:
    magic = _LLM_C_BY_DTYPE[job.manifest.dtype]
    for split, store, shard in job.shards():
        head = np.zeros(LLM_C_HEADER // 4, dtype="<i4")
        head[:3] = magic, _LLM_C_VERSION[magic], store.files.tokens[shard]
        with job.out.write(f"{job.name}_{split}_{shard:06d}.bin") as file:
            file.write(head.tobytes())
            # Each document's EOS moves before it: the last one goes, and one comes first.
            file.write(np.array([job.manifest.eos], dtype=store.dtype).tobytes())
            first, stop = _span(store, shard)
            copy_tokens(store, first, stop - 1, file)


def _llmc_notes(job: ExportJob) -> list[str]:
    return [
        *(f"{split}: {job.out.folder}/{job.name}_{split}_*.bin" for split in job.splits),
        "EOT stands before each document, as llm.c and modded-nanogpt expect. llm.c drops the end of each file that "
        "fills no batch of B x T tokens (and one more for the last target).",
    ]


# numpy: real .npy files.


def _write_npy(job: ExportJob) -> None:
    for split, store, shard in job.shards():
        descr = np.lib.format.dtype_to_descr(store.dtype)
        head = {"descr": descr, "fortran_order": False, "shape": (int(store.files.tokens[shard]),)}
        with job.out.write(f"{split}-{shard:05d}.npy") as file:
            np.lib.format.write_array_header_1_0(file, head)
            copy_tokens(store, *_span(store, shard), file)


_NPY = "Read with np.load(path, mmap_mode='r'). OLMo-core would take the header for tokens: export --to olmo for it."


# Folders of raw uint32 shards, by split; their metadata comes last, as what says that the folder is whole.


def _check_sharded_bin(job: ExportJob) -> None:
    if job.manifest.vocab_size > 1 << 32:
        raise ConfigError(f"Ids of {job.manifest.dtype} do not fit into {DTYPE}: export to npy.")


def _write_sharded_bin(job: ExportJob) -> None:
    manifest = job.manifest
    for split, store, shard in job.shards():
        _place_tokens(job, store, shard, shard_name(split, shard), np.dtype(DTYPE))
    kind = {"token_kind": manifest.tokenizer["name"], "chars": None, "fingerprint": manifest.tokenizer["fingerprint"]}
    shards = {split: job.splits[split].num_shards if split in job.splits else 0 for split in SPLITS}
    largest = max(int(store.files.tokens.max()) for store in job.splits.values())
    metadata = {
        "total_tokens": sum(store.num_tokens for store in job.splits.values()),
        "total_shards": sum(shards.values()),
        **{f"{split}_shards": count for split, count in shards.items()},
        "tokens_per_shard": largest,
        "tokenization": manifest.tokenizer["name"],
        "vocab_size": manifest.vocab_size,
        "eos": manifest.eos,
        "input_files": [],
    }
    for name, values in ((TOKENIZER_STATE, kind), (METADATA, metadata)):
        with job.out.write(name) as file:
            file.write((json.dumps(values, indent=2) + "\n").encode())


def _sharded_bin_notes(job: ExportJob) -> list[str]:
    manifest, name = job.manifest, job.manifest.tokenizer["name"]
    notes = [f"Each document ends with EOS ({manifest.eos}). Read a shard by np.memmap(path, dtype=np.uint32)."]
    if name != "gpt2":
        notes.append(
            f"tokenizer_state.json says token_kind {name!r}: scripts that know only gpt2 and char must be told of it."
        )
    if manifest.dtype != DTYPE:
        notes.append(f"The store's {manifest.dtype} became {DTYPE}: its tokens are copies, not links.")
    return notes


FORMATS = {
    "megatron": ExportFormat(_write_megatron, _megatron_notes),
    "olmo": ExportFormat(_write_olmo, _olmo_notes),
    "nanogpt": ExportFormat(_write_nanogpt, _nanogpt_notes),
    "llmc": ExportFormat(_write_llmc, _llmc_notes, _check_llmc),
    "npy": ExportFormat(_write_npy, lambda job: [_NPY]),
    "sharded-bin": ExportFormat(_write_sharded_bin, _sharded_bin_notes, _check_sharded_bin),
    "mds": ExportFormat(write_mds, mds_notes, check_samples, has_samples=True),
    "litdata": ExportFormat(write_litdata, litdata_notes, check_litdata, has_samples=True),
    "webdataset": ExportFormat(write_webdataset, webdataset_notes, check_webdataset, has_samples=True),
}
