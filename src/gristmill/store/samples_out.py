"""Samples to files, in the layout that MDS and LitData share.

u32 n | (n + 1) x u32: where each sample begins, from the start of the file, and where the last one ends | samples

A sample is a document, with the EOS at its end, or `seq_len` tokens of the whole split, whatever documents they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.texts import runs
from gristmill.store.export_job import COPY_TOKENS, ExportJob, copy_tokens
from gristmill.store.reader import Store
from gristmill.store.table import offsets
from gristmill.store.writer import shard_cuts

# Bytes of a file, unless one sample alone has more; what both libraries take where nothing is said.
SIZE_LIMIT = 1 << 26
_OFFSETS_END = 1 << 32

# The bytes before the tokens of a sample, by how many tokens it has.
Head = Callable[[int], bytes]
# The bytes of samples by their lengths in tokens.
Sizes = Callable[[Ints], Ints]


def check_samples(job: ExportJob) -> None:
    """Refuse a split that would be without samples."""
    for split, store in job.splits.items():
        if job.seq_len and store.num_tokens < job.seq_len:
            other = next((name for name in job.splits if name != split), None)
            instead = f"export the split {other} alone, or choose" if other else "choose"
            raise ConfigError(
                f"{split} has {store.num_tokens:,} tokens, which fill no sample of seq_len={job.seq_len:,}: "
                f"{instead} a smaller seq_len.",
                arguments="seq_len",
            )


def cut_samples(job: ExportJob, store: Store, sizes: Sizes, room: int) -> Iterator[Ints]:
    """The edges of the samples of each file, as tokens of the split; a file has `room` for so many bytes of samples."""
    done = 0
    for edges in sample_edges(store, job.seq_len, sizes, room):
        yield edges
        job.progress.advance((int(edges[-1]) - done) * store.dtype.itemsize)
        done = int(edges[-1])
    job.progress.advance((store.num_tokens - done) * store.dtype.itemsize)


def sample_edges(store: Store, seq_len: int | None, sizes: Sizes, room: int) -> Iterator[Ints]:
    """The same, for those who only look."""
    return _cut_fixed(store, seq_len, sizes, room) if seq_len else _cut_documents(store, sizes, room)


def _cut_documents(store: Store, sizes: Sizes, room: int) -> Iterator[Ints]:
    """Files hold documents of one shard, so that no more than its lengths are held in memory."""
    for shard in range(store.num_shards):
        lengths = store.document_lengths(shard)
        edges = store.tokens_in(shard) + offsets(lengths)
        yield from (edges[first : stop + 1] for first, stop in shard_cuts(sizes(lengths), room, 0))


def _cut_fixed(store: Store, seq_len: int, sizes: Sizes, room: int) -> Iterator[Ints]:
    count, size = store.num_tokens // seq_len, int(sizes(np.array([seq_len]))[0])
    a_file = max(1, room // size)
    yield from (np.arange(at, min(at + a_file, count) + 1) * seq_len for at in range(0, count, a_file))


def left_out(job: ExportJob) -> list[str]:
    """What fills no sample, a sentence a split."""
    rests = {split: store.num_tokens % job.seq_len for split, store in job.splits.items()} if job.seq_len else {}
    return [
        f"The last {rest:,} tokens of {split} fill no sample of {job.seq_len:,} and are left out."
        for split, rest in rests.items()
        if rest
    ]


def write_samples(
    file: IO[bytes], store: Store, edges: Ints, sizes: Ints, *, before: bytes = b"", head: Head | None = None
) -> None:
    """One file of samples of `sizes` bytes: offsets, the bytes `before` all samples, then each with its own head."""
    count = len(sizes)
    ends = offsets(sizes) + 4 * (count + 2) + len(before)
    if ends[-1] >= _OFFSETS_END:
        raise ConfigError(
            f"A document of {store.facts.path} has {edges[-1] - edges[0]:,} tokens, and a file of this format ends "
            "before 4 GiB: give seq_len=, which cuts it, or export to another format.",
            arguments="seq_len",
        )
    file.write(count.to_bytes(4, "little") + ends.astype("<u4").tobytes() + before)
    if head is None:
        copy_tokens(store, int(edges[0]), int(edges[-1]), file)
        return
    for first, last in runs(edges, COPY_TOKENS):
        near = edges[first : last + 1] - edges[first]
        tokens = np.ascontiguousarray(store.tokens(int(edges[first]), int(edges[last]))).data.cast("B")
        at = (near * store.dtype.itemsize).tolist()
        lengths = np.diff(near).tolist()
        file.write(b"".join(part for i, n in enumerate(lengths) for part in (head(n), tokens[at[i] : at[i + 1]])))
